/**
 * `tensorboard/`: one event file per run, made from the store only, like the run's other files. The file is only
 * appended to, so that a TensorBoard that has it open continues to read it; it is replaced only if its content differs.
 */

import { mkdir, open, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { RunSummary } from '../run-summary.ts';
import { writeAtomically } from '../../store/atomic-write.ts';
import { scalarEvent, versionEvent, tfRecord } from './event-file.ts';
import { runScalars, secondsOf } from './run-scalars.ts';

/** Appends the missing part of `content`. Killed or simultaneous writers write equal bytes, so the file stays valid. */
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

/** `batchEnds`: when the last rollout of each batch ended. In seconds since the epoch. */
export async function writeTensorboard(
  runDir: string,
  summary: RunSummary,
  batchEnds: ReadonlyMap<string, number>,
): Promise<void> {
  const { startedAt } = summary;
  const messages = [versionEvent(secondsOf(startedAt)), ...runScalars(summary, batchEnds).map(scalarEvent)];
  await extend(tensorboardFile(runDir, startedAt), Buffer.concat(messages.map(tfRecord)));
}
