/** What a running rollout keeps from phase to phase, beside the loop's state. The loop itself does not use it. */

import { workflowInfo } from '@temporalio/workflow';
import type { ProgramCard } from '../../protocol/program.ts';
import type { RunningProgram } from './await-program.ts';
import type { ProgramCalls } from './program-calls.ts';
import type { ProgramReports } from './program-reports.ts';
import type { ResolvedRollout } from './resolve-rollout.ts';
import type { LoopLimits } from './rollout-loop.ts';
import type { RolloutClock } from './rollout-clock.ts';
import type { Trip } from '../../protocol/breaker.ts';
import type { StageGates } from './stage-gates.ts';
import type { Asking, Attempt, CollectOutcome, SandboxRef, TaskLimits } from '../../protocol/stages.ts';

/** The attempt, as activities receive it. */
export function attemptOf(
  { attempt }: { readonly attempt: number },
  { input, rollout }: Pick<Context, 'input' | 'rollout'>,
): Attempt {
  const { run, task, catalog } = input;
  return { run, rollout, attempt, task, ...(catalog === undefined ? {} : { catalog }) };
}

/** What the task's functions and tools may ask, in the activities that run them. */
export function askingOf({ input: { judges } }: Pick<Context, 'input'>): Asking {
  return judges === undefined ? {} : { judges };
}

/** The time limit of a tool call: the task's own, else the configuration's. */
export function toolSecondsOf({ taskLimits, input }: Pick<Context, 'taskLimits' | 'input'>): number {
  return taskLimits.toolSeconds ?? input.agent.toolTimeoutSeconds;
}

/** Rounds of one history: it stays below the 4,096 events at which Temporal suggests a new one. */
const ROUNDS_PER_HISTORY = 300;

/** True if the rollout should continue in a new history. */
export function isCrowded({ rounds, reports, calls }: Pick<Context, 'rounds' | 'reports' | 'calls'>): boolean {
  return rounds + reports.received + calls.received >= ROUNDS_PER_HISTORY || workflowInfo().continueAsNewSuggested;
}

export interface Context {
  readonly input: ResolvedRollout;
  readonly rollout: string;
  readonly limits: LoopLimits;
  readonly gates: StageGates;
  sandbox: SandboxRef | null;
  /** The task's own, once it is prepared. */
  taskLimits: TaskLimits;
  collected: CollectOutcome | null;
  contextTokens: number;
  /** In this attempt. */
  sampledTokens: number;
  /** The GPU worker that has the context in its cache, where there are several. */
  worker: string | null;
  lines: readonly string[];
  /** What it waits for. */
  doing: string;
  /** The agent, if it is a program. `null`: it is not prepared, or no program. */
  program: ProgramCard | null;
  readonly reports: ProgramReports;
  readonly calls: ProgramCalls;
  /** The program in the sandbox; `null`: this history has not started or attached to it. */
  running: RunningProgram | null;
  /** How long a program elsewhere has worked in this attempt. */
  programMs: number;
  /** How much of this followed its last report. */
  silentMs: number;
  readonly clock: RolloutClock;
  paused: boolean;
  /** Why it is held until it is resumed; `null`: it is not held. */
  held: Trip | null;
  /** How often it was resumed. */
  resumed: number;
  /** Turns and sandbox renewals in this history. Each adds at most twelve events, or fourteen with an endpoint. */
  rounds: number;
}
