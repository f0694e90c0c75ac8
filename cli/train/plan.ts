/** The plan of a run, as lines that are printed before it starts. */

import type { CheckedTasks } from '../../config/open-tasks.ts';
import type { DispatcherSettings } from '../../protocol/batch.ts';
import type { Budget } from '../../protocol/budget.ts';
import type { Judges } from '../../protocol/judge.ts';
import { LOSSES } from '../../trainer/algorithms/losses/registry.ts';
import { budgetText } from '../../reports/spent.ts';
import type { RunConfig } from '../../protocol/run-config.ts';

export function dispatching({ type, maxParallelAgents, maxEvalParallelAgents }: DispatcherSettings): string {
  if (type === 'batch') return 'all rollouts at once';
  if (type === 'bounded') return `at most ${maxParallelAgents} rollouts at once`;
  return (
    `at most ${maxParallelAgents} rollouts in agent-run and ${maxEvalParallelAgents ?? maxParallelAgents} in ` +
    'reward at once'
  );
}

/** Empty for a synchronous run. */
function overlapping({ training, algorithm }: RunConfig): string[] {
  if (!training || training.mode === 'sync') return [];
  const versions =
    training.rolloutVersion === 'newest'
      ? 'each turn by the newest policy'
      : 'each rollout by the policy that it started with';
  const late = training.mode === 'async' ? training.maxStalenessSteps : 1;
  const masked =
    training.maskStalenessSteps === undefined ? '' : `, masked if more than ${training.maskStalenessSteps} late`;
  const correction = algorithm.offPolicyCorrection?.tisRatioType ?? 'none';
  return [
    `${training.mode}: trained on at most ${late} updates late${masked}; ${versions}; importance sampling: ` +
      `${correction}`,
  ];
}

function criticLines({ algorithm: { critic, gamma = 1, lambd = 1 }, policy }: RunConfig): string[] {
  if (critic === undefined) return [];
  const { rank, alpha } = critic.lora ?? {};
  const adapter = critic.lora === undefined ? '' : `, an adapter of rank ${rank} (alpha ${alpha})`;
  return [
    `critic from ${critic.base ?? policy.base}${adapter}: learning rate ${critic.learningRate} ` +
      `(${critic.schedule}), γ ${gamma}, λ ${lambd}`,
  ];
}

function lossLine({ loss = 'regular', lossReduction, clipLow, clipHigh, kl }: RunConfig['algorithm']): string {
  // Whether a module's loss clips is for it to say.
  const clip = clipLow === undefined || !(loss in LOSSES) ? '' : ` clipped to −${clipLow}/+${clipHigh}`;
  const reduction = lossReduction === undefined ? '' : `, ${lossReduction}`;
  return `loss ${loss}${clip}${reduction}${kl ? `, KL in the ${kl.in} × ${kl.coefficient}` : ''}`;
}

/** `gsm8k` for one source, `a ×3 + b ×1` with weights for several; with the sizes of the pools, if they are known. */
function tasksLine({ tasks: entries }: RunConfig, tasks: CheckedTasks | undefined): string {
  const weight = (one: number) => (entries.length === 1 ? '' : ` ×${one}`);
  return entries
    .map(({ source, weight: one }, i) => `${source}${weight(one)}${tasks ? ` (${tasks.train[i]?.count} tasks)` : ''}`)
    .join(' + ');
}

/** The judges, and the limits on what is used. */
export function judgeLines(judges: Judges = {}, budget?: Budget): string[] {
  const limit = budgetText(budget);
  return [
    ...Object.entries(judges).map(([name, { endpoint, budget: most }]) => {
      const text = budgetText(most);
      return `judge ${name}: ${endpoint.model} at ${endpoint.baseUrl}${text === '' ? '' : `, at most ${text}`}`;
    }),
    ...(limit === '' ? [] : [`budget: ${limit}; then it pauses`]),
  ];
}

function contextWords({ agent, policy }: RunConfig): string {
  const { maxContextTokens: tokens = policy.maxContextTokens } = agent;
  return tokens === undefined ? "the policy's context" : `${tokens} tokens`;
}

/** The engine's policies take no images. */
function imagesLine(tasks: CheckedTasks | undefined): string[] {
  const { imageTools = [] } = tasks ?? {};
  return imageTools.length === 0
    ? []
    : [`images of ${imageTools.join(', ')}: the policy takes none, and reads their text`];
}

/** `tasks`: absent if the sizes of the datasets are not known. */
export function planLines(config: RunConfig, tasks?: CheckedTasks): string[] {
  const { batch, evaluation, agent, algorithm, dispatcher } = config;
  const heldOut = tasks?.heldOut.reduce((sum, { count }) => sum + count, 0) ?? evaluation.tasks ?? 200;
  const most = tasks !== undefined || evaluation.tasks !== undefined ? '' : 'at most ';
  const perEvaluation = heldOut * (evaluation.greedy ? 2 : 1);
  const evaluations = 2 + (evaluation.every > 0 ? Math.floor((config.steps - 1) / evaluation.every) : 0);
  const rollouts = config.steps * batch.tasks * batch.samples;
  const { type, maxSampleBatches, minReplaceRatio } = batch.dynamicSampling;
  const until = {
    none: undefined,
    filter: 'enough groups vary',
    replace: `more than ${minReplaceRatio} of a step's groups vary; copies of these replace the others`,
  }[type];
  const drawn = until === undefined ? '' : `, up to ${rollouts * maxSampleBatches} until ${until}`;
  return [
    `run ${config.run} in ${config.dir}/${config.run}, seed ${config.seed}`,
    `policy ${config.policy.base}`,
    `${tasksLine(config, tasks)}: ${config.steps} steps of ${batch.tasks} tasks × ${batch.samples} samples = ` +
      `${rollouts} rollouts${drawn}`,
    `${evaluations} evaluations of ${most}${perEvaluation} rollouts on ${most}${heldOut} held-out tasks`,
    `agent: at most ${agent.maxTurns} turns and ${contextWords(config)}`,
    `${algorithm.advantage}, ${lossLine(algorithm)}: learning rate ${algorithm.learningRate} ` +
      `(${algorithm.schedule}), epochs: ${algorithm.epochs}, minibatches per epoch: ${algorithm.minibatches}`,
    ...imagesLine(tasks),
    ...criticLines(config),
    `dispatcher ${dispatcher.type}: ${dispatching(dispatcher)}`,
    ...overlapping(config),
    ...judgeLines(config.judges, config.budget),
  ];
}
