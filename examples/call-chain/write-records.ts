/** Writes the starter's training data into `records/`: `node examples/call-chain/write-records.ts`. */

import { join } from 'node:path';
import { writeChats } from '../support/records.ts';
import { clean, drill, mixed } from './demonstrations.ts';

const at = (name: string): string => join(import.meta.dirname, 'records', name);
await writeChats(at('drills.jsonl'), 9_600, drill);
await writeChats(at('clean.jsonl'), 12_560, clean);
await writeChats(at('mixed.jsonl'), 2_560, mixed);
