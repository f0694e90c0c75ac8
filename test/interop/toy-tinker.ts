/** The Tinker API's server over a toy engine, by itself: prints its URL, and serves until its input ends. */

import path from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { startToy } from '../servers/tinker/toy-server.ts';

const dir = path.join(packageRoot, 'examples', 'starter');
const { server } = await startToy({}, { name: dir, dir, aliases: ['starter'], vocabSize: 512, contextTokens: 1024 });
process.stdout.write(`${server.url}\n`);
process.stdin.resume();
process.stdin.on('end', () => void server.close(0).then(() => process.exit()));
