/**
 * The journal of the Tinker API as its server uses it: what is accepted is written first, then its lane's workflow is
 * woken; housekeeping runs beside it until it is closed. A wake-up that is lost is repeated by the housekeeping.
 */

import type { Client } from '@temporalio/client';
import {
  laneWorkflowId,
  TINKER_WAKE,
  TINKER_WORKFLOW,
  type TinkerLane,
  type TinkerWorkflowInput,
} from '../../protocol/tinker-lanes.ts';
import { QUEUES } from '../../protocol/queues.ts';
import type { Patience } from '../../store/disk-patience.ts';
import type { TinkerJournal } from '../../store/tinker/journal.ts';
import { openTinkerJournal, type SqliteJournal } from '../../store/tinker/sqlite-journal.ts';

export interface TinkerBookOptions {
  /** URL of the stack's store. */
  readonly store: string;
  readonly client: Pick<Client, 'workflow'>;
  /** The models that are served: their names, and directories in Hugging Face layout. */
  readonly bases: ReadonlyArray<{ readonly name: string; readonly dir: string }>;
  readonly say: (line: string) => void;
  /** In milliseconds. */
  readonly housekeepingMs?: number;
}

export interface TinkerBook extends TinkerJournal {
  close(): Promise<void>;
}

const HOUSEKEEPING_MS = 10_000;
/** A caller waits for a disk for this time at most; then its request fails, and may be repeated. */
const SERVER_PATIENCE: Patience = { firstMs: 100, longestMs: 2_000, totalMs: 20_000 };

class WokenLanes {
  readonly #client: TinkerBookOptions['client'];
  readonly #say: TinkerBookOptions['say'];
  /** Lanes that are being woken, so that many requests at once send one signal. */
  readonly #waking = new Set<string>();

  constructor({ client, say }: Pick<TinkerBookOptions, 'client' | 'say'>) {
    this.#client = client;
    this.#say = say;
  }

  /** Starts the lane's workflow, or signals the one that runs. A failure is reported: housekeeping tries again. */
  async wake(lane: TinkerLane): Promise<void> {
    const workflowId = laneWorkflowId(lane);
    if (this.#waking.has(workflowId)) return;
    this.#waking.add(workflowId);
    try {
      await this.#client.workflow.signalWithStart(TINKER_WORKFLOW, {
        workflowId,
        taskQueue: QUEUES.orchestrator,
        args: [{ lane } satisfies TinkerWorkflowInput],
        signal: TINKER_WAKE,
        signalArgs: [],
      });
    } catch (error) {
      this.#say(`${workflowId} is not awake yet: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      this.#waking.delete(workflowId);
    }
  }
}

/** One pass: forgets, fails what cannot move, and wakes lanes whose work nobody does. */
async function keepHouse(journal: SqliteJournal, lanes: WokenLanes, say: (line: string) => void): Promise<void> {
  const failed = await journal.keepHouse();
  if (failed > 0) say(`${failed} requests failed: nothing of their models was done for too long`);
  const { models, bases } = await journal.unheld();
  for (const model of models) await lanes.wake({ what: 'model', model });
  for (const base of bases) await lanes.wake({ what: 'sampling', base });
}

/**
 * Opens the journal of a stack for its server. The methods of the journal are those of `TinkerJournal`; `accept` also
 * wakes the worker. Errors: `UserInputError` if the store is not a folder of this machine; disk errors by their class.
 */
export async function openTinkerBook(options: TinkerBookOptions): Promise<TinkerBook> {
  const { store, bases, say, housekeepingMs = HOUSEKEEPING_MS } = options;
  const journal = openTinkerJournal(store, { ...SERVER_PATIENCE, say });
  const lanes = new WokenLanes(options);
  const accept: TinkerBook['accept'] = async (given) => {
    const { wake, ...accepted } = await journal.accept(given);
    if (wake !== undefined) {
      const isSample = given.operation.kind === 'sample';
      // The operation is on the disk, so the caller need not wait for its worker.
      void lanes.wake(isSample ? { what: 'sampling', base: wake.base } : { what: 'model', model: given.lane });
    }
    return accepted;
  };
  try {
    for (const { name, dir } of bases) await journal.putBase(name, dir);
  } catch (error) {
    await journal.close();
    throw error;
  }
  let keeping: Promise<void> | undefined;
  const keep = () => {
    keeping ??= keepHouse(journal, lanes, say)
      .catch((error: unknown) => say(`housekeeping failed: ${error instanceof Error ? error.message : String(error)}`))
      .finally(() => {
        keeping = undefined;
      });
  };
  keep();
  const timer = setInterval(keep, housekeepingMs);
  const close = async () => {
    clearInterval(timer);
    await keeping;
    await journal.close();
  };
  return new Proxy<SqliteJournal>(journal, {
    get(own, name) {
      if (name === 'accept') return accept;
      if (name === 'close') return close;
      const value: unknown = Reflect.get(own, name, own);
      return typeof value === 'function' ? value.bind(own) : value;
    },
  });
}
