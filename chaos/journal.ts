/** The work in flight in one run: started according to the journal, which is written first, and without a result. */

import { setTimeout as sleep } from 'node:timers/promises';
import { keys, resultKeyOf } from '../protocol/record-keys.ts';
import type { Execution, Store } from '../store/store.ts';
import type { Role } from '../workers/settings.ts';

/** Work that is in flight for less than this has its result recorded before it could start again. */
const SAMPLE_MS = 20;

const ROLE_OF: Readonly<Record<string, Role>> = {
  init: 'init',
  model: 'gpu',
  update: 'gpu',
  tool: 'agent-run',
  collect: 'agent-run',
  reward: 'reward',
};

export interface Work extends Execution {
  readonly kind: string;
  readonly role: Role;
  /** `''` for an update. */
  readonly rollout: string;
  /** `ROLLOUT#ATTEMPT`, the sandbox's id; `''` for an update. */
  readonly sandbox: string;
}

/** Parses an entry of the journal; `undefined` if it belongs to another run. */
export function workOf(execution: Execution, run: string): Work | undefined {
  const { key } = execution;
  const kind = key.slice(0, key.indexOf(':'));
  const role = ROLE_OF[kind];
  const sandbox = /train\/.*#\d+/su.exec(key)?.[0] ?? '';
  const rollout = sandbox.slice(0, sandbox.lastIndexOf('#'));
  const own = key.startsWith(`update:${run}/`) || rollout.startsWith(`train/${run}/`);
  return own && role !== undefined ? { ...execution, kind, role, rollout, sandbox } : undefined;
}

export class Journal {
  readonly #store: Store;
  readonly #run: string;
  readonly #open = new Map<string, Work>();
  readonly #all: Work[] = [];
  #seen = 0;

  constructor(store: Store, run: string) {
    this.#store = store;
    this.#run = run;
  }

  /** Every execution of the run so far. */
  async all(): Promise<readonly Work[]> {
    for (const execution of await this.#store.executions(this.#seen)) {
      // A concurrent call has read it already.
      if (execution.seq <= this.#seen) continue;
      this.#seen = execution.seq;
      const work = workOf(execution, this.#run);
      if (!work) continue;
      this.#all.push(work);
      this.#open.set(work.key, work);
      if (work.kind === 'init') this.#dropEarlier(work);
    }
    return this.#all;
  }

  /** Work that has started and has no result yet: the last execution of each key. */
  async underWay(): Promise<readonly Work[]> {
    await this.all();
    for (const work of this.#open.values()) if (await this.#isOver(work)) this.#open.delete(work.key);
    return [...this.#open.values()];
  }

  /** Work that was in flight at any moment from now until `ended`. */
  async underWayUntil(ended: Promise<unknown>): Promise<readonly Work[]> {
    const seen = new Map<string, Work>();
    let goesOn = true;
    const over = () => void (goesOn = false);
    ended.then(over, over);
    for (;;) {
      const isLast = !goesOn;
      for (const work of await this.underWay()) seen.set(work.key, work);
      if (isLast) return [...seen.values()];
      await sleep(SAMPLE_MS);
    }
  }

  /** Earlier attempts of a rollout that starts again get no more results. */
  #dropEarlier({ rollout, sandbox }: Work): void {
    for (const [key, work] of this.#open)
      if (work.rollout === rollout && work.sandbox !== sandbox) this.#open.delete(key);
  }

  async #isOver({ kind, key, rollout, sandbox, seq }: Work): Promise<boolean> {
    if (rollout !== '' && (await this.#store.get(keys.outcome(rollout))) !== undefined) return true;
    const result = resultKeyOf(key);
    if (result !== undefined) return (await this.#store.get(result)) !== undefined;
    // A sandbox counts as made when later work uses it.
    return (
      kind === 'init' && this.#all.some((work) => work.seq > seq && work.sandbox === sandbox && work.kind !== 'init')
    );
  }
}
