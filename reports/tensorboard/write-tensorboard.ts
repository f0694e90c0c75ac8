/**
 * `tensorboard/`: one event file per run, made from the store alone like the run's other files. A TensorBoard that has
 * the file open goes on reading it: what is there is only added to, unless it is something else.
 */

import { mkdir, open, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { RunSummary } from '../run-summary.ts';
import { writeAtomically } from '../../store/atomic-write.ts';
import { scalarEvent, versionEvent, tfRecord } from './event-file.ts';
import { runScalars, secondsOf } from './run-scalars.ts';

/** The same bytes at the same places: writers that are killed, or two at once, leave the one file that was meant. */
async function extend(path: string, content: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const there = await readFile(path).catch(() => null);
  if (!there || !content.subarray(0, there.length).equals(there)) return writeAtomically(path, content);
  if (there.length === content.length) return;
  const file = await open(path, 'r+');
  try {
    await file.write(content, there.length, content.length - there.length, there.length);
  } finally {
    await file.close();
  }
}

export function tensorboardFile(runDir: string, startedAt: string): string {
  return join(runDir, 'tensorboard', `events.out.tfevents.${Math.floor(secondsOf(startedAt))}.longhaul`);
}

/** `batchEnds`: when the last rollout of each batch ended, seconds since the epoch. */
export async function writeTensorboard(
  runDir: string,
  summary: RunSummary,
  batchEnds: ReadonlyMap<string, number>,
): Promise<void> {
  const { startedAt } = summary;
  const messages = [versionEvent(secondsOf(startedAt)), ...runScalars(summary, batchEnds).map(scalarEvent)];
  await extend(tensorboardFile(runDir, startedAt), Buffer.concat(messages.map(tfRecord)));
}
