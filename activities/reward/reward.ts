/**
 * The `reward` queue: grades what was collected, in a fresh sandbox. If its worker is lost, the next execution attaches
 * to the calls that run there. A grader's own failure is retried in another sandbox and is never a reward.
 */

import { openingMessages } from '../../tasks/opening-messages.ts';
import { stateBefore } from '../agent-run/environment-step.ts';
import { SandboxLost, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import type { TaskContext, Work } from '../../tasks/environment.ts';
import { Unjudged } from '../../tasks/fair-question.ts';
import type { LoadedTask, TaskLoader } from '../../tasks/task-loader.ts';
import type { Verdict, RewardInput } from '../../protocol/stages.ts';
import { blameOwnCode } from '../own-code.ts';
import type { RewardActivities } from '../../protocol/activities.ts';
import { type AskDeps, patienceWithJudges, withAsk } from '../ask.ts';
import { FailedBefore, QuestionRefused } from '../failures.ts';
import { orAborted } from '../or-aborted.ts';
import type { ActRecord, GenerateRecord, OutcomeRecord, ProgramRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { answerIn, saidIn } from '../../protocol/transcript.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import { bareContext, contextOver, freshContext, type Named } from '../task-context.ts';
import type { TaskSandboxes } from '../task-sandboxes.ts';
import { tried } from '../tries.ts';
import { endRounds, type Graded, GraderFailed, gradeRound } from './grading-rounds.ts';

export interface RewardDeps extends AskDeps {
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
}

/** A sandbox that is lost during grading is not the rollout's failure: the next attempt has another one. */
function blameGrader(error: unknown): never {
  if (error instanceof SandboxLost || error instanceof SandboxUnavailable || error instanceof QuestionRefused)
    throw new GraderFailed(error.message, { cause: error });
  if (error instanceof Unjudged) throw new GraderFailed(error.message, { cause: error });
  return blameOwnCode(error, 'the grader', (message) => new GraderFailed(message));
}

/** A grader that throws, instead of returning a promise that rejects, fails in the same way. */
async function gradeBy({ task, source }: LoadedTask, ctx: TaskContext, work: Work): Promise<Verdict> {
  try {
    return checkedVerdict(await task.grade(ctx, work), source);
  } catch (error) {
    return blameGrader(error);
  }
}

/** The last text of the rollout's own agent: the finish tool's `answer`, or a message without a call. */
function lastAnswer(turns: readonly GenerateRecord[]): string {
  const last = turns.findLast(({ agentPath }) => agentPath === undefined);
  return last === undefined ? '' : answerIn(last);
}

type Metrics = Readonly<Record<string, number>>;

/** The metrics that the environment's steps reported. Of each name the last value counts. */
function metricsOf(acts: ReadonlyMap<number, ActRecord>, turns: number): Metrics {
  const counted = [...acts].filter(([turn]) => turn <= turns).toSorted(([a], [b]) => a - b);
  return Object.assign({}, ...counted.map(([, { metrics }]) => metrics)) as Metrics;
}

/** Everything that the rollout recorded. */
async function workOf(
  input: RewardInput,
  { store, tasks }: Pick<RewardDeps, 'store' | 'tasks'>,
): Promise<{ readonly work: Work; readonly metrics: Metrics }> {
  const [recorded, acts] = await Promise.all([turnsOf(store, input), actsOf(store, input)]);
  const turns = recorded.slice(0, input.turns);
  const transcript = [...(await openingMessages(input, { store, tasks })), ...saidIn({ turns, acts })];
  const artifact = input.artifact === undefined ? new Uint8Array() : await store.getObject(input.artifact);
  const program = await store.get<ProgramRecord>(keys.program(input));
  const answer = program?.answer ?? lastAnswer(turns);
  const state = await stateBefore(input.turns + 1, input, store);
  const { finish, turns: count } = input;
  const turnRewards = Array.from({ length: count }, (_, i) => acts.get(i + 1)?.reward ?? 0);
  const work = { transcript, answer, finish, turns: count, artifact, state, turnRewards };
  return { work, metrics: metricsOf(acts, count) };
}

/** How long a grader's fresh sandbox lives without renewal. */
const TTL_SECONDS = 600;

/** True also if there are none. */
function areNumbers(named: unknown): boolean {
  if (named === undefined) return true;
  return typeof named === 'object' && named !== null && Object.values(named).every((value) => Number.isFinite(value));
}

/** The grader's metrics replace those of the steps. */
function withMetrics(verdict: Graded, ofSteps: Metrics): Graded {
  const metrics = { ...ofSteps, ...verdict.metrics };
  return Object.keys(metrics).length === 0 ? verdict : { ...verdict, metrics };
}

/** Errors: `GraderFailed` if the value is not a verdict: it would be trained on as it is. */
function checkedVerdict(verdict: Verdict, name: string): Verdict {
  const given = verdict as Partial<Record<string, unknown>> | undefined;
  if (given?.['code'] === 'grader-failed') return verdict;
  const isGraded =
    given?.['code'] === 'graded' &&
    typeof given['reward'] === 'number' &&
    Number.isFinite(given['reward']) &&
    typeof given['passed'] === 'boolean';
  if (isGraded && areNumbers(given['parts']) && areNumbers(given['metrics'])) return verdict;
  throw new GraderFailed(
    `grade of ${name} returned ${JSON.stringify(verdict) ?? 'nothing'}: return { code: 'graded', reward: ` +
      'a number, passed: true or false, reason }, and in parts and metrics numbers by name',
  );
}

/** One execution of the grading, in the context that `contextOf` makes. */
async function gradeOnce(
  input: RewardInput,
  contextOf: (further: SandboxProvider, loaded: LoadedTask, named: Named) => TaskContext,
  deps: RewardDeps,
  signal: AbortSignal,
): Promise<Graded> {
  return gradeRound(input, deps, signal, async ({ id, number, provider }) => {
    const loaded = await deps.tasks.load(input);
    const { work, metrics } = await workOf(input, deps);
    const named = { key: input.task, id, execution: number, signal };
    const verdict = await orAborted(
      () =>
        withAsk({ attempt: input, place: 'grade', signal }, deps, (asks) =>
          gradeBy(loaded, contextOf(provider, loaded, { ...named, ...asks }), work),
        ),
      signal,
    );
    if (verdict.code !== 'graded') throw new GraderFailed(verdict.reason);
    return withMetrics(verdict, metrics);
  });
}

/** The recorded verdict, or that of a grading by `grade`; the outcome is recorded with it. */
export async function verdictOf(input: RewardInput, grade: () => Promise<Graded>, deps: RewardDeps): Promise<Graded> {
  const { store } = deps;
  const { run, rollout, attempt, task, catalog, turns, finish } = input;
  const known = await store.get<Graded>(keys.verdict(input));
  if (known) await endRounds(input, Number.MAX_SAFE_INTEGER, deps);
  const verdict = known ?? (await grade());
  const outcome = await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
    rollout,
    task,
    ...(catalog && { catalog }),
    attempt,
    turns,
    status: 'graded',
    reward: verdict.reward,
    passed: verdict.passed,
    finish,
    failure: null,
    reason: verdict.reason,
    ...(verdict.parts && { parts: verdict.parts }),
    ...(verdict.metrics && { metrics: verdict.metrics }),
  });
  if (outcome.status === 'failed') throw new FailedBefore(rollout, outcome.failure ?? 'internal');
  await store.append([{ run, rollout, attempt, event: 'graded', at: new Date().toISOString() }]);
  return verdict;
}

/** One execution of the grading in `sandboxes`, the agent's own. */
export function gradeIn(
  sandboxes: TaskSandboxes,
  input: RewardInput,
  deps: RewardDeps,
  signal: AbortSignal,
): Promise<Graded> {
  const inPlace = (further: SandboxProvider, _loaded: LoadedTask, named: Named) =>
    contextOver(sandboxes, further, named);
  return gradeOnce(input, inPlace, deps, signal);
}

export function createRewardActivities(deps: RewardDeps): RewardActivities {
  const inFreshSandboxes = (further: SandboxProvider, { task }: LoadedTask, named: Named) =>
    task.gradedIn === 'none' ? bareContext(named) : freshContext(task, further, TTL_SECONDS, named);
  return {
    computeReward: (input) =>
      tried({ store: deps.store, place: 'reward', ...patienceWithJudges(input) }, (signal) =>
        verdictOf(input, () => gradeOnce(input, inFreshSandboxes, deps, signal), deps),
      ),
  };
}
