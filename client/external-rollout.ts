/**
 * A rollout whose agent is a program, as that program sees it: it waits until the rollout is ready, reports its turns
 * in order, one at a time, and its end. What is on record stays there if this process ends; another one continues after
 * it.
 */

import { type Client, type WorkflowHandle, WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { naming } from '../connection/stack-identity.ts';
import {
  REFUSED,
  REPORT_END,
  REPORT_TURN,
  type ReportAnswer,
  type ReportedEnd,
  type ReportedTurn,
} from '../protocol/program.ts';
import type { RolloutResult } from '../protocol/rollout.ts';
import { runKey, stageKey } from '../protocol/search-attributes.ts';
import { whileAway } from './while-away.ts';

/** A report that was refused for good. `code` says why. */
export class ReportRefused extends Error {
  override readonly name = 'ReportRefused';
  /**
   * `wrong`: the report, or the rollout takes none. `lost`: the attempt was lost, and the program must start again with
   * `begin`. `over`: its work is over. `late`: the rollout was not ready in time.
   */
  readonly code: 'wrong' | 'lost' | 'over' | 'late';

  constructor(code: ReportRefused['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A turn without its numbers. */
export type Turn = Pick<ReportedTurn, 'messages' | 'tokens'>;

/** Where the program continues. */
export interface Begun {
  readonly attempt: number;
  /** Turns on record: 0 unless an earlier process reported some. */
  readonly turns: number;
}

const RETRY_MS = 200;
const LONGEST_RETRY_MS = 5_000;
/** How long the rollout may take to be prepared, or to continue in a new history. */
const READY_WITHIN_MS = 30 * 60_000;

const CODES = new Map<string | null | undefined, ReportRefused['code']>([
  [REFUSED.wrong, 'wrong'],
  [REFUSED.lost, 'lost'],
  [REFUSED.over, 'over'],
]);

/** Part of the rollout's answer to the query `state`. */
interface Seen extends Begun {
  readonly phase: string;
  readonly turn: number;
}

/**
 * Rollouts of a run, or of an eval (`eval/ID`), whose agents are at work now. The server's list is some seconds old, so
 * that a program asks again after a while; `begin` throws `ReportRefused` for a rollout that has ended meanwhile.
 */
export async function* rolloutsAtWork(client: Client, run: string): AsyncGenerator<ExternalRollout> {
  if (run.includes("'")) throw new TypeError(`there is no run ${JSON.stringify(run)}`);
  const query =
    `WorkflowType = 'rollout' AND ExecutionStatus = 'Running' AND ${stageKey.name} = 'agent-run' AND ` +
    `${runKey.name} = '${run}'`;
  for await (const { workflowId } of client.workflow.list({ query })) yield new ExternalRollout(client, workflowId);
}

export class ExternalRollout {
  readonly workflowId: string;
  readonly #handle: WorkflowHandle;
  readonly #readyWithinMs: number;
  #begun: Begun | undefined;
  /** Ends when all reports so far have. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: Client, workflowId: string, readyWithinMs = READY_WITHIN_MS) {
    this.workflowId = workflowId;
    this.#handle = client.workflow.getHandle(workflowId);
    this.#readyWithinMs = readyWithinMs;
  }

  /**
   * Waits until the rollout waits for its program. After a lost attempt this is the next attempt.
   * Errors: `ReportRefused` if it takes no reports, or is not ready in time; `WorkflowNotFoundError`.
   */
  async begin(): Promise<Begun> {
    const until = Date.now() + this.#readyWithinMs;
    for (let pause = RETRY_MS; ; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
      const { phase, attempt, turn } = await naming(() => whileAway(() => this.#handle.query<Seen>('state')));
      if (phase === 'wait') {
        this.#begun = { attempt, turns: turn };
        return this.#begun;
      }
      if (phase !== 'prepare' && phase !== 'restore')
        throw new ReportRefused('over', `${this.workflowId} waits for no program: it is in phase ${phase}`);
      if (Date.now() > until) throw new ReportRefused('late', `${this.workflowId} was not ready in time`);
      await sleep(pause);
    }
  }

  /**
   * Reports the next turn: the model's message, then what answered it. Resolves when it is on record; while the run is
   * paused it waits. A `finish` in the answer: the program's work is over. Errors: `ReportRefused`.
   */
  report(turn: Turn): Promise<ReportAnswer> {
    return this.#inOrder(async () => {
      const { attempt, turns } = this.#begun ?? (await this.begin());
      const answer = await this.#send<ReportedTurn>(REPORT_TURN, { ...turn, attempt, turn: turns + 1 });
      this.#begun = { attempt, turns: turns + 1 };
      return answer;
    });
  }

  /** Reports the end. Resolves when the rollout continues with its grading. Errors: `ReportRefused`. */
  finish(answer?: string): Promise<ReportAnswer> {
    return this.#inOrder(async () => {
      const begun = this.#begun ?? (await this.begin());
      return this.#send<ReportedEnd>(REPORT_END, { ...begun, ...(answer !== undefined && { answer }) });
    });
  }

  /** Waits for the grade. */
  result(): Promise<RolloutResult> {
    return whileAway(() => this.#handle.result() as Promise<RolloutResult>);
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Repeats a report that comes too early: the server knows a repeated one by its number. */
  async #send<Report extends object>(update: string, report: Report): Promise<ReportAnswer> {
    const until = Date.now() + this.#readyWithinMs;
    for (let pause = RETRY_MS; ; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
      try {
        return await naming(() =>
          whileAway(() => this.#handle.executeUpdate<ReportAnswer, [Report]>(update, { args: [report] })),
        );
      } catch (error) {
        if (error instanceof WorkflowNotFoundError)
          throw new ReportRefused('over', `${this.workflowId} has ended`, { cause: error });
        const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
        const refused = cause instanceof ApplicationFailure ? cause : undefined;
        const code = CODES.get(refused?.type);
        if (code === 'lost') this.#begun = undefined;
        if (code !== undefined) throw new ReportRefused(code, refused?.message ?? '', { cause: error });
        if (refused?.type !== REFUSED.early) throw error;
        if (Date.now() > until) throw new ReportRefused('late', refused.message, { cause: error });
        await sleep(pause);
      }
    }
  }
}
