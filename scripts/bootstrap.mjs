/** `node scripts/bootstrap.mjs VERB`: runs the set-up, then VERB with the pinned Node. Its exit code is VERB's. */

import { spawn } from 'node:child_process';
import { setUpOrExit } from './setup.mjs';
import { endWith, launchedEnv, whenLauncherEnds } from './setup/launcher-watch.mjs';
import { packageRoot } from './setup/paths.mjs';

const VERBS = {
  quickstart: ['bin/longhaul.mjs', 'train', 'examples/quickstart.yaml', '--require-improvement'],
  test: ['scripts/test.mjs'],
  vectors: ['scripts/vectors.mjs'],
  interop: ['--disable-warning=ExperimentalWarning', 'test/interop/run-interop.ts'],
};

const [verb, ...rest] = process.argv.slice(2);
const command = VERBS[verb];
if (command === undefined) {
  process.stderr.write(`VERB: ${JSON.stringify(verb)} cannot be used; give one of ${Object.keys(VERBS).join(', ')}\n`);
  process.exit(2);
}

const settled = whenLauncherEnds(() => process.exit(143));
const node = await setUpOrExit();
settled();
endWith(spawn(node.path, [...command, ...rest], { cwd: packageRoot, stdio: 'inherit', env: launchedEnv() }));
