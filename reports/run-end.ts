/**
 * How a run has ended: the last recorded end is valid, and no record is ever changed. A failed or cancelled run may be
 * started again. This is a record of its own, which makes the end before it invalid. A completed run stays completed.
 */

import type { Store } from '../store/store.ts';
import type { RunAgain, RunEnd, StepEntry } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';

/** Every recorded end, and every record that the run was started again after one. */
interface Ends {
  readonly ends: readonly RunEnd[];
  readonly agains: readonly RunAgain[];
}

async function endsOf(run: string, store: Store): Promise<Ends> {
  const first = await store.get<RunEnd>(keys.runEnd(run));
  const further = await store.list<RunEnd>(`${keys.runEnd(run)}/`);
  const agains = await store.list<RunAgain>(`run-again:${run}/`);
  return {
    ends: [...(first ? [first] : []), ...further.map(({ value }) => value)],
    agains: agains.map(({ value }) => value),
  };
}

function standing({ ends, agains }: Ends): RunEnd | undefined {
  return ends.length > agains.length ? ends.at(-1) : undefined;
}

/** The run's valid end. `undefined` while it is running, or running again. */
export async function endOfRun(run: string, store: Store): Promise<RunEnd | undefined> {
  return standing(await endsOf(run, store));
}

/** When the run was last started again after an end. `undefined`: never. */
export async function wentOnAt(run: string, store: Store): Promise<string | undefined> {
  return (await endsOf(run, store)).agains.at(-1)?.at;
}

/**
 * Continues a failed or cancelled run with another execution than the one that reported its end: a late activity of the
 * old execution changes nothing. Returns true if `execution` continues the run.
 */
export async function goOn(run: string, execution: string | undefined, store: Store): Promise<boolean> {
  const known = await endsOf(run, store);
  if (execution !== undefined && known.agains.some((one) => one.execution === execution)) return true;
  const end = standing(known);
  if (!end || end.status === 'completed' || end.execution === execution) return false;
  const again = { at: new Date().toISOString(), ...(execution === undefined ? {} : { execution }) };
  await store.putOnce<RunAgain>(keys.runAgain(run, known.ends.length), again);
  return true;
}

/** Records a run's end. Only the first end of each execution counts, and no end after `completed`. */
export async function recordEndOfRun(run: string, end: RunEnd, store: Store): Promise<void> {
  const before = await endsOf(run, store);
  if (end.execution !== undefined && before.ends.some(({ execution }) => execution === end.execution)) return;
  // If an execution was reset to before its end, the recorded end stays.
  await goOn(run, end.execution, store);
  const known = await endsOf(run, store);
  if (standing(known) === undefined) await store.putOnce<RunEnd>(keys.runEnd(run, known.ends.length + 1), end);
}

/** True if the run failed or was cancelled: its unfinished rollouts count as masked until the run is started again. */
export function wasStopped(end: RunEnd | undefined): end is RunEnd & { readonly status: 'failed' | 'cancelled' } {
  return end !== undefined && end.status !== 'completed';
}

/** Milliseconds in which the run was not paused, as far as it is recorded: until its last step, or its last end. */
export async function workedMsOf(run: string, store: Store): Promise<number> {
  const step = (await store.list<StepEntry>(`step:${run}/`)).at(-1)?.value.workedMs ?? 0;
  return Math.max(step, ...(await endsOf(run, store)).ends.map(({ workedMs = 0 }) => workedMs));
}
