/**
 * What a program reports to its rollout. Each turn is taken once and in order, whatever comes twice or too early; what
 * cannot be taken is refused before it is in the history. A report is answered when it is on record.
 */

import { ApplicationFailure, condition, defineUpdate, setHandler } from '@temporalio/workflow';
import {
  type ProgramCard,
  problemOfEnd,
  problemOfTurn,
  REFUSED,
  REPORT_END,
  REPORT_TURN,
  type ReportAnswer,
  type ReportedEnd,
  type ReportedTurn,
  REPORTS_AHEAD,
} from '../../protocol/program.ts';
import type { LoopState } from './rollout-loop.ts';

export const reportTurnUpdate = defineUpdate<ReportAnswer, [ReportedTurn]>(REPORT_TURN);
export const reportEndUpdate = defineUpdate<ReportAnswer, [ReportedEnd]>(REPORT_END);

/** What reports are compared with. */
export interface Reported {
  readonly state: LoopState;
  /** `null`: it is not prepared, or its agent is no program. */
  readonly card: ProgramCard | null;
  readonly maxTurns: number;
}

export const refusal = (type: string, message: string): ApplicationFailure =>
  ApplicationFailure.create({ type, message, nonRetryable: true });

/** True once the program's work is over. */
export const isOver = ({ phase }: LoopState): boolean => phase !== 'wait' && phase !== 'prepare' && phase !== 'restore';

export class ProgramReports {
  readonly #now: () => Reported;
  readonly #turns = new Map<number, ReportedTurn>();
  #end: ReportedEnd | null = null;
  /** Updates of this history. */
  #received = 0;
  /** True if this history takes no more of them. */
  #closed = false;

  /** `now`: read at each report. */
  constructor(now: () => Reported) {
    this.#now = now;
  }

  /** Sets the handlers. What was reported before is handled at once. */
  setHandlers(): void {
    setHandler(reportTurnUpdate, (report) => this.#takeTurn(report), {
      validator: (report) => this.#checkTurn(report),
    });
    setHandler(reportEndUpdate, (report) => this.#takeEnd(report), { validator: (report) => this.#checkEnd(report) });
  }

  get received(): number {
    return this.#received;
  }

  /** True if there is something to record. */
  get isReady(): boolean {
    return this.next().turns.length > 0 || this.next().end !== null;
  }

  /** The turns that follow those on record without a gap, and the end, if no turn before it is missing. */
  next(): { readonly turns: readonly ReportedTurn[]; readonly end: ReportedEnd | null } {
    const { state, maxTurns, card } = this.#now();
    const turns: ReportedTurn[] = [];
    for (let turn = state.turn + 1; turn <= maxTurns; turn += 1) {
      const report = this.#turns.get(turn);
      if (report === undefined) break;
      turns.push(report);
    }
    const isWhole = card?.gateway === true || state.turn + turns.length >= (this.#end?.turns ?? 0);
    const end = isWhole ? this.#end : null;
    return { turns, end };
  }

  /** Forgets what is on record. */
  taken(turns: number): void {
    for (const turn of this.#turns.keys()) if (turn <= turns) this.#turns.delete(turn);
  }

  /** The attempt was lost: its reports do not count for the next one. */
  beginAnew(): void {
    this.#turns.clear();
    this.#end = null;
  }

  /** Ends the wait of all reports, so that the history may end. */
  close(): void {
    this.#closed = true;
  }

  /** Errors: a failure of a type in `REFUSED`, which never enters the history. */
  #check(problem: string | undefined, attempt: number): void {
    if (problem !== undefined) throw refusal(REFUSED.wrong, problem);
    const { state, card } = this.#now();
    if (this.#closed && !isOver(state))
      throw refusal(REFUSED.early, 'the rollout continues in a new history: report it again');
    if (attempt < state.attempt)
      throw refusal(REFUSED.lost, `attempt ${attempt} was lost: start again, at turn 1 of attempt ${state.attempt}`);
    if (attempt > state.attempt)
      throw refusal(REFUSED.wrong, `attempt: ${attempt} cannot be used; the rollout is in attempt ${state.attempt}`);
    if (state.phase !== 'wait' && !isOver(state))
      throw refusal(REFUSED.early, 'the rollout is not prepared: report it again when it waits');
    if (card === null)
      throw refusal(REFUSED.wrong, 'agent.type: the agent of this rollout is no program, so it takes no reports');
  }

  #checkTurn(report: ReportedTurn): void {
    if (this.#now().card?.gateway)
      throw refusal(REFUSED.wrong, 'agent.options.gateway: model calls are turns; the program reports its end alone');
    this.#check(problemOfTurn(report, { tokens: this.#now().card?.tokens ?? false }), report?.attempt);
    const { state, maxTurns } = this.#now();
    if (report.turn <= state.turn) return;
    if (isOver(state))
      throw refusal(
        REFUSED.over,
        `turn ${report.turn}: the program's work ended after turn ${state.turn} (${state.finish ?? state.phase})`,
      );
    if (report.turn > maxTurns)
      throw refusal(
        REFUSED.wrong,
        `agent.maxTurns: ${maxTurns} turns are all; report the end in place of turn ${report.turn}`,
      );
    if (this.#end !== null && report.turn > this.#end.turns)
      throw refusal(REFUSED.over, `turn ${report.turn}: the end was reported after turn ${this.#end.turns}`);
    if (report.turn > state.turn + REPORTS_AHEAD)
      throw refusal(REFUSED.early, `turn ${report.turn}: report turn ${state.turn + 1} first`);
  }

  #checkEnd(report: ReportedEnd): void {
    this.#check(problemOfEnd(report), report?.attempt);
    const { state, card } = this.#now();
    if (isOver(state)) return;
    if (card?.runs === 'sandbox')
      throw refusal(REFUSED.wrong, 'agent.options.command: the program runs in the sandbox, and ends when it exits');
    if (card?.gateway) return;
    if (report.turns < state.turn)
      throw refusal(REFUSED.wrong, `turns: ${report.turns} cannot be used; ${state.turn} turns are on record`);
    if (report.turns > state.turn + REPORTS_AHEAD)
      throw refusal(REFUSED.early, `turns: ${report.turns}: report turn ${state.turn + 1} first`);
  }

  async #takeTurn(report: ReportedTurn): Promise<ReportAnswer> {
    this.#received += 1;
    const { turn, attempt } = report;
    if (turn > this.#now().state.turn && !this.#turns.has(turn)) this.#turns.set(turn, report);
    return this.#answer(attempt, ({ turn: onRecord }) => turn <= onRecord);
  }

  async #takeEnd(report: ReportedEnd): Promise<ReportAnswer> {
    this.#received += 1;
    this.#end ??= report;
    return this.#answer(report.attempt, () => false);
  }

  async #answer(attempt: number, isOnRecord: (state: LoopState) => boolean): Promise<ReportAnswer> {
    const isAnswered = () => {
      const { state } = this.#now();
      return this.#closed || state.attempt !== attempt || isOver(state) || isOnRecord(state);
    };
    await condition(isAnswered);
    const { state } = this.#now();
    if (state.attempt !== attempt) throw refusal(REFUSED.lost, `attempt ${attempt} was lost: start again at turn 1`);
    const over = isOver(state);
    if (!over && !isOnRecord(state))
      throw refusal(REFUSED.early, 'the rollout continues in a new history: report it again');
    if (state.phase === 'failed')
      throw refusal(REFUSED.over, `the rollout failed: ${state.failure ?? 'internal'}: ${state.message ?? ''}`);
    return { turns: state.turn, ...(over && state.finish !== undefined && { finish: state.finish }) };
  }
}
