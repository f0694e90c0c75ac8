/**
 * Rolls tasks out with their gold solution and with an empty answer: a grader must give 1 to the one, 0 or
 * less to the other.
 */

import { taskKey } from '../../protocol/task-key.ts';
import type { LoopState } from '../../workflows/rollout/rollout-loop.ts';
import { type CheckedSource, spread } from './check-tasks.ts';
import type { PromptCheck } from './check-prompts.ts';
import type { CountPrompt, Here } from './roll-out-here.ts';

/** The reward that each scripted policy must get; `empty` may get less. */
const EXPECTED = { oracle: 1, empty: 0 } as const;
type Scripted = keyof typeof EXPECTED;
const SCRIPTED: readonly Scripted[] = ['oracle', 'empty'];

export interface WrongGrade {
  readonly task: string;
  readonly policy: Scripted;
  /** `null`: it was not graded. */
  readonly reward: number | null;
  readonly turns: number;
  /** The grader's reason, or the failure with the file and line that threw it. */
  readonly message: string;
  readonly failure: string | null;
}

export interface GradedPolicy {
  readonly policy: Scripted;
  readonly expected: number;
  readonly rollouts: number;
  readonly right: number;
}

export interface CheckedGraders {
  readonly policies: readonly GradedPolicy[];
  /** Tasks that have no function `oracle`: only `empty` was rolled out. */
  readonly withoutOracle: number;
  readonly wrong: readonly WrongGrade[];
}

const CLOSE = 1e-6;

function wrongOf(task: string, policy: Scripted, state: LoopState): WrongGrade | undefined {
  const { phase, reward = null, reason = '', message = '', failure = null, turn } = state;
  // Some graders punish an answer in the wrong form by a reward below 0.
  const isRight = (given: number): boolean =>
    policy === 'empty' ? given < EXPECTED.empty + CLOSE : Math.abs(given - EXPECTED.oracle) < CLOSE;
  if (phase === 'graded' && reward !== null && isRight(reward)) return undefined;
  const sentence = phase === 'graded' ? reason : message;
  return { task, policy, reward: phase === 'graded' ? reward : null, turns: turn, message: sentence, failure };
}

/** At most `most` tasks of each split, of those that were loaded. */
function tasksOf(sources: readonly CheckedSource[], ids: readonly string[], most: number): string[] {
  if (ids.length > 0) return spread(0, ids.length, most).flatMap((i) => ids[i] ?? []);
  return sources.flatMap(({ source, splits }) =>
    splits.flatMap(({ split, loaded }) =>
      spread(0, loaded.length, most).map((i) => taskKey(source, split, loaded[i] ?? 0)),
    ),
  );
}

export interface Grading {
  readonly sources: readonly CheckedSource[];
  readonly ids: readonly string[];
  readonly here: Here;
  /** Absent: no prompt is counted. */
  readonly prompts: PromptCheck | undefined;
  /** Tasks of each split. */
  readonly most: number;
  readonly signal: AbortSignal;
  readonly progress: (done: number, total: number) => void;
}

/** Errors: only the signal's; a rollout that fails is wrong. */
export async function checkGraders(grading: Grading): Promise<CheckedGraders> {
  const { sources, ids, here, prompts, most, signal, progress } = grading;
  const tasks = tasksOf(sources, ids, most);
  const wrong: WrongGrade[] = [];
  const counts = { oracle: { rollouts: 0, right: 0 }, empty: { rollouts: 0, right: 0 } };
  let [withoutOracle, done] = [0, 0];
  for (const task of tasks) {
    const hasOracle = await here.hasOracle(task).catch(() => true);
    if (!hasOracle) withoutOracle += 1;
    const onPrompt = prompts && ((count: CountPrompt) => prompts.count(task, count));
    for (const policy of SCRIPTED) {
      if (policy === 'oracle' && !hasOracle) continue;
      const found = wrongOf(task, policy, await here.rollOut(task, policy, signal, onPrompt));
      counts[policy].rollouts += 1;
      if (found === undefined) counts[policy].right += 1;
      else wrong.push(found);
    }
    done += 1;
    progress(done, tasks.length);
  }
  const policies = SCRIPTED.map((policy) => ({ policy, expected: EXPECTED[policy], ...counts[policy] }));
  return { policies, withoutOracle, wrong };
}
