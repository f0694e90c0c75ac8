/**
 * The model calls of a program that is the agent. Each is an update that names its request in the store; it becomes the
 * next turn of the attempt, is sampled once, and its update is answered when the turn is on record. Calls run side by
 * side. They wait while the rollout is paused or held, and before a history is full they are refused as early. Every
 * call that got a turn is on record before the rollout continues.
 */

import {
  ApplicationFailure,
  CancellationScope,
  condition,
  defineUpdate,
  isCancellation,
  setHandler,
} from '@temporalio/workflow';
import type { FinishReason } from '../../protocol/finish-reason.ts';
import {
  BUDGET_SPENT,
  CALL_MODEL,
  type ModelCall,
  type ModelCallAnswer,
  problemOfCall,
} from '../../protocol/gateway.ts';
import { REFUSED } from '../../protocol/program.ts';
import type { CallInput, GenerateOutcome } from '../../protocol/stages.ts';
import type { Reported } from './program-reports.ts';
import { isOver, refusal } from './program-reports.ts';
import { WaitedTime } from './waited-time.ts';

export const callModelUpdate = defineUpdate<ModelCallAnswer, [ModelCall]>(CALL_MODEL);

/** What calls are compared with. */
export interface Calling extends Reported {
  /** True while nothing may be sampled. */
  readonly waits: boolean;
  /** Tokens that the attempt may still sample. */
  readonly tokensLeft: number;
}

/** Carried over continue-as-new, while no call is being sampled. */
export interface CallProgress {
  /** Turns of the latest calls, by name: a gateway may repeat a call in the next history. */
  readonly latest: ReadonlyArray<readonly [call: string, turn: number]>;
  /** Calls that have a turn and wait to be sampled. */
  readonly waiting: ReadonlyArray<readonly [call: string, turn: number, asked: string]>;
  /** Turns that calls have in this attempt. */
  readonly turns: number;
  readonly spent?: FinishReason;
  /** How long calls have waited for pauses and outages. Absent: not at all. */
  readonly waitedMs?: number;
}

/** A call on its way to its record. */
interface Flying {
  readonly turn: number;
  readonly asked: string;
  /** Tokens that it may sample. 0: it waits. */
  tokens: number;
}

/** Calls whose turns are known after they are on record. A sandbox has at most 32 connections. */
const LATEST = 64;

/** Samples one call, with at most so many tokens. */
export type SampleCall = (turn: number, call: CallInput, tokens: number) => Promise<GenerateOutcome>;

export class ProgramCalls {
  readonly #now: () => Calling;
  readonly #sample: SampleCall;
  readonly #most: number;
  readonly #flying = new Map<string, Flying>();
  readonly #latest = new Map<string, number>();
  /** Ends the calls of an attempt that was lost. */
  #scope = new CancellationScope();
  /** Turns that calls have in this attempt. */
  #turns = 0;
  #received = 0;
  #closed = false;
  #ended = false;
  #failure: { readonly error: unknown } | null = null;
  #waited: WaitedTime;
  /** Why no further call is sampled. */
  #spent: FinishReason | null;

  /** `now`: read at each call. `most`: tokens of one call. */
  constructor(now: () => Calling, sample: SampleCall, most: number, progress?: CallProgress) {
    this.#now = now;
    this.#sample = sample;
    this.#most = most;
    this.#turns = progress?.turns ?? 0;
    this.#spent = progress?.spent ?? null;
    this.#waited = new WaitedTime(progress?.waitedMs);
    for (const [call, turn] of progress?.latest ?? []) this.#latest.set(call, turn);
    for (const [call, turn, asked] of progress?.waiting ?? []) this.#flying.set(call, { turn, asked, tokens: 0 });
  }

  /** Sets the handler, and continues with calls of the history before. What was asked before is handled at once. */
  setHandler(): void {
    const { attempt } = this.#now().state;
    // If the workflow is cancelled, nobody waits for them.
    for (const [call, { asked }] of this.#flying) this.#fly({ attempt, call, asked }).catch(() => undefined);
    setHandler(callModelUpdate, (call) => this.#take(call), { validator: (call) => this.#check(call) });
  }

  get received(): number {
    return this.#received;
  }

  /** Turns of this attempt, without those that wait or are being sampled. */
  get recorded(): number {
    return this.#turns - this.#flying.size;
  }

  /** Why no further call is sampled. */
  get spent(): FinishReason | null {
    return this.#spent;
  }

  /** True if every turn is on record. */
  get isSettled(): boolean {
    return this.#flying.size === 0;
  }

  /** True if no call is being sampled. */
  get isIdle(): boolean {
    return [...this.#flying.values()].every(({ tokens }) => tokens === 0);
  }

  /**
   * How long calls of this attempt have waited for the end of a pause, a hold or an outage, until the program's end.
   */
  get waitedMs(): number {
    return this.#waited.ms(Date.now());
  }

  get progress(): CallProgress {
    const { waitedMs } = this;
    return {
      latest: [...this.#latest],
      waiting: [...this.#flying].map(([call, { turn, asked }]) => [call, turn, asked] as const),
      turns: this.#turns,
      ...(this.#spent !== null && { spent: this.#spent }),
      ...(waitedMs > 0 && { waitedMs }),
    };
  }

  /** True if a call could not be sampled: the loop handles it, then the call is tried again. */
  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  takeFailure(): unknown {
    const error = this.#failure?.error;
    this.#failure = null;
    return error;
  }

  /** The program's work is over: no call gets a turn any more. */
  end(): void {
    if (!this.#ended) this.#waited.stop(Date.now());
    this.#ended = true;
  }

  /** The attempt was lost: nothing of its calls counts for the next one. */
  beginAnew(): void {
    this.#scope.cancel();
    this.#scope = new CancellationScope();
    this.#flying.clear();
    this.#latest.clear();
    this.#turns = 0;
    this.#failure = null;
    this.#spent = null;
    this.#waited = new WaitedTime();
    this.#ended = false;
  }

  /** Ends the wait of calls that are not sampled yet, so that the history may end. */
  close(): void {
    this.#closed = true;
  }

  #isOver(attempt: number): boolean {
    const { state } = this.#now();
    return state.attempt !== attempt || isOver(state);
  }

  #check(call: ModelCall): void {
    const { state, card, maxTurns } = this.#now();
    const { attempt } = call ?? {};
    if (isOver(state)) throw refusal(REFUSED.over, `the rollout is over (${state.finish ?? state.phase})`);
    if (this.#closed) throw refusal(REFUSED.early, 'the rollout continues in a new history: repeat the call');
    if (attempt < state.attempt) throw refusal(REFUSED.lost, `attempt ${attempt} was lost`);
    if (state.phase !== 'wait') throw refusal(REFUSED.early, 'the rollout is not prepared: repeat the call later');
    const problem = problemOfCall(call, card);
    if (problem !== undefined) throw refusal(REFUSED.wrong, problem);
    if (attempt > state.attempt) throw refusal(REFUSED.wrong, `attempt: the rollout is in attempt ${state.attempt}`);
    if (this.#latest.has(call.call)) return;
    if (this.#ended) throw refusal(REFUSED.over, 'the program has ended');
    if (this.#spent !== null) throw this.#overBudget(maxTurns);
  }

  #overBudget(maxTurns: number): ApplicationFailure {
    const message =
      this.#spent === 'max-turns'
        ? `agent.maxTurns: ${maxTurns} model calls are all`
        : 'agent.maxSampledTokens: all tokens of the rollout are sampled';
    return refusal(BUDGET_SPENT, message);
  }

  /** The call's turn. Synchronous: a name has one turn, whichever client repeats it. */
  #turnOf({ call, asked }: ModelCall): { readonly turn: number; readonly isNew: boolean } {
    const known = this.#latest.get(call);
    if (known !== undefined) return { turn: known, isNew: false };
    const { maxTurns, tokensLeft } = this.#now();
    if (this.#spent === null && this.#turns >= maxTurns) this.#spent = 'max-turns';
    if (this.#spent === null && tokensLeft <= 0) this.#spent = 'token-budget';
    if (this.#spent !== null) throw this.#overBudget(maxTurns);
    this.#turns += 1;
    this.#flying.set(call, { turn: this.#turns, asked, tokens: 0 });
    this.#latest.set(call, this.#turns);
    for (const [name] of this.#latest)
      if (this.#latest.size > LATEST && !this.#flying.has(name)) this.#latest.delete(name);
    return { turn: this.#turns, isNew: true };
  }

  async #take(call: ModelCall): Promise<ModelCallAnswer> {
    this.#received += 1;
    const { attempt } = call;
    const { turn, isNew } = this.#turnOf(call);
    if (isNew) await this.#fly(call);
    else await condition(() => !this.#flying.has(call.call) || this.#closed || this.#isOver(attempt));
    const { state } = this.#now();
    if (state.attempt !== attempt) throw refusal(REFUSED.lost, `attempt ${attempt} was lost`);
    if (!this.#flying.has(call.call)) return { turn };
    if (this.#closed) throw refusal(REFUSED.early, 'the rollout continues in a new history: repeat the call');
    throw refusal(REFUSED.over, `the rollout ended before the call was answered (${state.failure ?? state.phase})`);
  }

  /** Tokens that a call may sample now: what the attempt has left beside the calls that are being sampled. */
  #room(): number {
    const reserved = [...this.#flying.values()].reduce((sum, { tokens }) => sum + tokens, 0);
    return Math.min(this.#most, this.#now().tokensLeft - reserved);
  }

  /** Samples the call until it is on record, the attempt is over, or the history is closed before it is sampled. */
  async #fly({ attempt, call, asked }: ModelCall): Promise<void> {
    const scope = this.#scope;
    const own = this.#flying.get(call);
    if (own === undefined) return;
    const { turn } = own;
    const twins = [...this.#flying.values()].filter((one) => one.asked === asked && one.turn < turn);
    const input: CallInput = { call, asked, twins: twins.map((one) => one.turn) };
    const isDone = () => scope !== this.#scope || this.#isOver(attempt);
    const mayRun = () => !this.#now().waits && this.#failure === null && (this.#room() > 0 || this.isIdle);
    for (;;) {
      await this.#whileHeld(() => condition(() => mayRun() || this.#closed || isDone()));
      if (this.#closed || isDone()) return;
      own.tokens = Math.max(1, this.#room());
      const since = Date.now();
      try {
        await scope.run(() => this.#sample(turn, input, own.tokens));
        if (!isDone()) this.#flying.delete(call);
        return;
      } catch (error) {
        own.tokens = 0;
        if (scope !== this.#scope) return;
        if (isCancellation(error)) throw error;
        this.#waited.lost(since, Date.now());
        this.#failure ??= { error };
      }
    }
  }

  /** Counts the wait, if it is for a pause, a hold or an outage: not that for other calls. */
  async #whileHeld(wait: () => Promise<void>): Promise<void> {
    const isHeld = this.#now().waits || this.#failure !== null;
    const waited = this.#waited;
    if (isHeld) waited.begin(Date.now());
    try {
      await wait();
    } finally {
      if (isHeld) waited.end(Date.now());
    }
  }
}
