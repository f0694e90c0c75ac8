/** Writes the starter's training data into `records/`: `node examples/call-chain/write-records.ts`. */

import { join } from 'node:path';
import { writeChats } from '../support/records.ts';
import { clean, drill, mixed } from './demonstrations.ts';

const at = (name: string): string => join(import.meta.dirname, 'records', name);
await writeChats(at('drills.jsonl'), 19_200, drill);
await writeChats(at('clean.jsonl'), 36_000, clean);
await writeChats(at('mixed.jsonl'), 4_000, mixed);
