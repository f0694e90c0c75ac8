/**
 * How a run has ended: the last word stands, and none is ever changed. One that failed or was cancelled may be begun
 * again, which is a record of its own beside the end that it takes back; one that is completed stays so.
 */

import type { Store } from '../store/store.ts';
import { keys, type RunAgain, type RunEnd } from '../protocol/records.ts';

/** Every end that was said, and every time that the run went on after one. */
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

/** `undefined` while it is under way, also again. */
export async function endOfRun(run: string, store: Store): Promise<RunEnd | undefined> {
  return standing(await endsOf(run, store));
}

/** When the run went on after an end, the last time; `undefined`: it never did. */
export async function wentOnAt(run: string, store: Store): Promise<string | undefined> {
  return (await endsOf(run, store)).agains.at(-1)?.at;
}

/**
 * Takes back the end of a run that failed or was cancelled, for another execution than the one that said it: an activity
 * of that one which comes late changes nothing. Returns whether the run goes on by `execution`.
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

/** Each execution says one end, and the first one where they are told again; after `completed` there is none. */
export async function recordEndOfRun(run: string, end: RunEnd, store: Store): Promise<void> {
  const before = await endsOf(run, store);
  if (end.execution !== undefined && before.ends.some(({ execution }) => execution === end.execution)) return;
  // An execution that was reset to before this end does not open the run again.
  await goOn(run, end.execution, store);
  const known = await endsOf(run, store);
  if (standing(known) === undefined) await store.putOnce<RunEnd>(keys.runEnd(run, known.ends.length + 1), end);
}

/** Whether it ended with rollouts under way: those are masked for as long as its end stands, and go on with it. */
export function wasStopped(end: RunEnd | undefined): end is RunEnd & { readonly status: 'failed' | 'cancelled' } {
  return end !== undefined && end.status !== 'completed';
}
