/** What a running rollout knows from phase to phase; the loop itself knows nothing of it. */

import type { ResolvedRollout } from './resolve-rollout.ts';
import type { LoopLimits } from './rollout-loop.ts';
import type { RolloutClock } from './rollout-clock.ts';
import type { Trip } from '../../protocol/breaker.ts';
import type { StageGates } from './stage-gates.ts';
import type { CollectOutcome, SandboxRef } from '../../protocol/stages.ts';

/** What only the running workflow knows beside the loop's state. */
export interface Context {
  readonly input: ResolvedRollout;
  readonly rollout: string;
  readonly limits: LoopLimits;
  readonly gates: StageGates;
  sandbox: SandboxRef | null;
  collected: CollectOutcome | null;
  contextTokens: number;
  /** The GPU worker that has the context in its cache, where there are several. */
  worker: string | null;
  lines: readonly string[];
  /** What it waits for. */
  doing: string;
  readonly clock: RolloutClock;
  paused: boolean;
  /** Why it stands still until it is resumed. */
  held: Trip | null;
  /** How often it was resumed. */
  resumed: number;
  /** Turns, and renewals of a waiting rollout's sandbox, in this history: twelve events each at most, two more with an endpoint. */
  rounds: number;
}
