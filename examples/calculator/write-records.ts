/** Writes the starter's training data into `records/`: `node examples/calculator/write-records.ts`. */

import { join } from 'node:path';
import { writeChats } from '../support/records.ts';
import { clean, drill, mixed } from './demonstrations.ts';

const at = (name: string): string => join(import.meta.dirname, 'records', name);
await writeChats(at('drills.jsonl'), 16_000, drill);
await writeChats(at('clean.jsonl'), 40_000, clean);
await writeChats(at('more.jsonl'), 40_000, (n) => clean(1_000_000 + n));
await writeChats(at('mixed.jsonl'), 6_000, mixed);
