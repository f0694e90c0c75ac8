/** Open runs and evals whose kind of engine no live worker has: their work waits until one comes. */

import { storeUrlOf } from '../../connection/store-url.ts';
import type { EngineRecord } from '../../protocol/engine.ts';
import { kindOfQueue } from '../../protocol/queues.ts';
import { keys } from '../../protocol/record-keys.ts';
import { openStore, storeExists } from '../../store/open-store.ts';
import { openRuns } from '../../workers/watchdog/find-stalls.ts';
import type { VerbContext } from '../verb.ts';
import type { KnownWorker } from './known-workers.ts';
import { withLonghaul } from './with-run.ts';

const ANSWERS_WITHIN_MS = 3_000;

export interface WaitingEngine {
  /** The run, or `eval/ID`. */
  readonly run: string;
  /** The kind that no live worker has. */
  readonly kind: string;
}

/** `open`: names of open runs and evals. Pure. */
export function waitingEngines(
  records: readonly EngineRecord[],
  open: readonly string[],
  workers: readonly Pick<KnownWorker, 'queues' | 'state'>[],
): WaitingEngine[] {
  const live = new Set(
    workers.flatMap(({ state, queues }) =>
      state === 'live' ? queues.flatMap((queue) => kindOfQueue(queue) ?? []) : [],
    ),
  );
  return records
    .filter(({ run, mixed }) => !mixed && open.includes(run))
    .flatMap(({ run, kinds }) => Object.values(kinds).map(({ id }) => ({ run, kind: id })))
    .filter(({ kind }) => !live.has(kind));
}

/** Empty if Temporal does not answer, or if no run has begun with a kind. */
export async function enginesWaitedFor(
  context: VerbContext,
  workers: readonly KnownWorker[],
): Promise<WaitingEngine[]> {
  const url = storeUrlOf(context.env, context.cwd);
  if (!(await storeExists(url))) return [];
  const store = await openStore(url);
  const records = await store.list<EngineRecord>(keys.engines).finally(() => store.close());
  if (records.length === 0) return [];
  const open = await withLonghaul(context, ({ client }) =>
    client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => openRuns(client)),
  ).catch(() => []);
  return waitingEngines(
    records.map(({ value }) => value),
    open,
    workers,
  );
}

export const waitingLine = ({ run, kind }: WaitingEngine): string =>
  `${run} waits for an engine of the kind ${kind}, and no live worker has one: ` +
  'start a GPU worker on such a machine with the same build, ' +
  'or let engines of other kinds continue (bits may differ): npx longhaul down, then LONGHAUL_MIXED_ENGINES=1 npx ' +
  'longhaul up --detach';
