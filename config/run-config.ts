/** The run configuration's schema: every field, its default and its bounds. Unknown fields are refused by name. */

import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { comparesGroups } from '../trainer/algorithms/advantages/registry.ts';
import { EMBEDDED } from '../trainer/backends/registry.ts';
import { modelUri } from '../trainer/hub/hub-id.ts';
import { refusedStraggler } from '../workflows/batch/stragglers.ts';
import { DISPATCHER_TYPES, refusedSetting, resolveDispatcher } from '../workflows/batch/dispatch-schedule.ts';
import { CODECS, TEXT_CODECS } from '../protocol/conversation.ts';
import type { Budget } from '../protocol/budget.ts';
import { DEFAULT_BREAKER } from '../protocol/breaker.ts';
import { DEFAULT_HINTS } from '../protocol/hints.ts';
import { LONGEST_SECONDS, MOST_GROUPS_OF_A_HISTORY, MOST_ROLLOUTS, MOST_TASKS } from '../protocol/limits.ts';
import { maxStalenessOf, mostGroupsOfStep, refusedTraining, resolveTraining } from '../workflows/training/settings.ts';
import { type DispatcherSettings, MIN_REPLACE_RATIO, type StragglerSettings } from '../protocol/batch.ts';
import { DEFAULT_AGENT, DEFAULT_SAMPLING } from '../protocol/rollout.ts';
import type { AlgorithmSettings, RunConfig } from '../protocol/run-config.ts';
import { algorithmSchema, checkNames } from './algorithm/config.ts';
import { loraSchema } from './algorithm/critic-schema.ts';
import { offPolicyCorrectionSchema } from './algorithm/off-policy-schema.ts';
import { needsCorrection } from './algorithm/rules.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { budgetSchema, checkPriced, judgesIn, judgesSchema } from './judges-schema.ts';
import { innermost, rightName } from './right-name.ts';
import { remedyOf } from './issue-remedy.ts';
import {
  entriesSchema,
  modulesSchema,
  resolveModules,
  resolveTaskEntries,
  splitSchema,
  taskSchema,
} from './tasks-schema.ts';
import { baseUri, tinkerServerSchema } from './tinker-policy.ts';
import { meantSetting, settingsAt } from './known-settings.ts';

const count = z.int().min(1);
const width = z.int().min(1).optional();

const repeated = z
  .int()
  .min(0)
  .refine((times) => times !== 1, 'give 0 (off), or 2 and more: what happens once is no repetition');

export const agentSchema = z.strictObject({
  maxTurns: count.default(DEFAULT_AGENT.maxTurns),
  maxContextTokens: count.optional(),
  maxSampledTokens: count.optional(),
  maxDepth: count.max(10).default(DEFAULT_AGENT.maxDepth),
  maxSegments: count.max(1000).default(DEFAULT_AGENT.maxSegments),
  toolTimeoutSeconds: z.number().min(1).max(3600).default(DEFAULT_AGENT.toolTimeoutSeconds),
  deadlineSeconds: z.number().min(1).max(LONGEST_SECONDS).default(DEFAULT_AGENT.deadlineSeconds),
  atDeadline: z.enum(['grade', 'mask']).optional(),
  type: z.string().min(1).optional(),
  options: z.record(z.string(), z.json()).optional(),
  codec: z.enum(CODECS).optional(),
  preamble: z.enum(['auto', 'always', 'never']).optional(),
  reasoning: z.enum(['keep', 'remove']).optional(),
  hints: z
    .strictObject({
      parseError: z.boolean().default(DEFAULT_HINTS.parseError),
      unknownTool: z.boolean().default(DEFAULT_HINTS.unknownTool),
      sameAction: repeated.default(DEFAULT_HINTS.sameAction),
      alternating: repeated.default(DEFAULT_HINTS.alternating),
      monologue: z.int().min(0).default(DEFAULT_HINTS.monologue),
      turnsLeft: z.int().min(0).default(DEFAULT_HINTS.turnsLeft),
      tokensLeft: z.int().min(0).default(DEFAULT_HINTS.tokensLeft),
    })
    .optional(),
});

export const samplingSchema = z.strictObject({
  temperature: z.number().min(0).max(10).default(DEFAULT_SAMPLING.temperature),
  topP: z.number().gt(0).max(1).default(DEFAULT_SAMPLING.topP),
  topK: z.int().min(0).default(DEFAULT_SAMPLING.topK),
  minP: z.number().min(0).max(1).optional(),
  repetitionPenalty: z.number().positive().max(10).optional(),
  stop: z.array(z.string().min(1)).max(16).optional(),
  maxTokens: count.default(DEFAULT_SAMPLING.maxTokens),
});

export const dispatcherSchema = z
  .strictObject({
    type: z.enum(DISPATCHER_TYPES).default('pipeline'),
    maxParallelAgents: width,
    maxEvalParallelAgents: width,
  })
  .superRefine((settings, context) => {
    const refused = refusedSetting(settings as DispatcherSettings);
    if (refused) context.addIssue({ code: 'custom', path: [refused.field], message: refused.remedy });
  })
  .transform((settings) => resolveDispatcher(settings as DispatcherSettings));

const steps = z.int().min(0).optional();

const training = z
  .strictObject({
    mode: z.enum(['sync', 'one-step-off', 'async']).default('sync'),
    maxStalenessSteps: steps,
    rolloutVersion: z.enum(['newest', 'begin']).optional(),
    maskStalenessSteps: steps,
    shards: z.int().min(1).max(64).optional(),
    placement: z.enum(['colocated', 'disaggregated']).optional(),
  })
  .superRefine((settings, context) => {
    const refused = refusedTraining(settings);
    if (refused) context.addIssue({ code: 'custom', path: [refused.field], message: refused.remedy });
  })
  .transform(resolveTraining);

export const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

export const runConfigSchema = z.strictObject({
  run: z.string().regex(RUN_ID, 'give letters, digits, dot, dash and underscore, at most 100').default('default'),
  dir: z.string().default('runs'),
  seed: z.int().min(0).default(1),
  steps: count.default(20),
  policy: z.strictObject({
    base: z.string().min(1),
    backend: z.string().min(1).default(EMBEDDED.name),
    lora: loraSchema.optional(),
    maxContextTokens: count.optional(),
    server: tinkerServerSchema.optional(),
  }),
  modules: modulesSchema,
  task: taskSchema.optional(),
  tasks: entriesSchema.optional(),
  batch: z
    .strictObject({
      tasks: count.default(8),
      samples: count.default(8),
      dynamicSampling: z
        .strictObject({
          type: z.enum(['none', 'filter', 'replace']).default('none'),
          maxSampleBatches: count.default(4),
          minReplaceRatio: z.number().min(0).lt(1).optional(),
        })
        .superRefine(({ type, minReplaceRatio }, context) => {
          if (type === 'replace' || minReplaceRatio === undefined) return;
          context.addIssue({
            code: 'custom',
            path: ['minReplaceRatio'],
            message: 'leave it out, or give type: replace',
          });
        })
        .transform(({ type, minReplaceRatio = MIN_REPLACE_RATIO, ...rest }) => ({
          type,
          ...rest,
          ...(type === 'replace' && { minReplaceRatio }),
        }))
        .prefault({}),
      stragglers: z
        .strictObject({
          deadlineSeconds: z.number().positive().optional(),
          completeGroupWithout: z.int().min(0).optional(),
        })
        .optional(),
    })
    .superRefine(({ samples, stragglers }, context) => {
      const refused = stragglers ? refusedStraggler(stragglers as StragglerSettings, samples) : undefined;
      if (refused) context.addIssue({ code: 'custom', path: ['stragglers', refused.field], message: refused.remedy });
    })
    .prefault({}),
  agent: agentSchema.prefault({}),
  sampling: samplingSchema.prefault({}),
  judges: judgesSchema,
  budget: budgetSchema,
  dispatcher: dispatcherSchema.prefault({}),
  training: training.prefault({}),
  algorithm: algorithmSchema.prefault({}),
  evaluation: z
    .strictObject({
      tasks: count.max(MOST_TASKS).optional(),
      split: splitSchema.optional(),
      greedy: z.boolean().default(true),
      every: z.int().min(0).default(0),
    })
    .prefault({}),
  checkpoint: z.strictObject({ every: z.int().min(0).default(0) }).prefault({}),
  breaker: z
    .strictObject({
      maxConsecutiveFailures: z.int().min(0).default(DEFAULT_BREAKER.maxConsecutiveFailures),
      share: z.number().gt(0).max(1).default(DEFAULT_BREAKER.share),
    })
    .prefault({}),
});

/** A run's configuration as it is written, defaults left out. */
export type RunSettings = z.input<typeof runConfigSchema>;

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value;
  for (const key of path)
    at = typeof at === 'object' && at !== null ? (at as Record<PropertyKey, unknown>)[key] : undefined;
  return at;
}

/** Endpoints have their own error instead of "no such setting", since the user needs the reason. */
function refuseEndpoint(given: unknown): void {
  const policy = valueAt(given, ['policy']);
  const base = valueAt(policy, ['base']);
  const isAddress = typeof base === 'string' && /^https?:\/\//.test(base);
  if (!isAddress && valueAt(policy, ['endpoint']) === undefined) return;
  const remedy =
    'an endpoint cannot be trained, since its server takes no updates (and many give no log-probabilities); ' +
    'give policy.base, a directory in Hugging Face layout, and keep endpoints for evaluation and single rollouts';
  throw new UserInputError(isAddress ? 'policy.base' : 'policy.endpoint', '(an endpoint)', remedy);
}

/** An unknown setting may be a key in a wrong place, and errors are in histories and logs: its value is hidden. */
function shown(name: string, value: unknown): unknown {
  const maySay =
    typeof value === 'string' ? !/key|token|secret|pass|auth|credential/i.test(name) : typeof value !== 'object';
  return maySay ? value : '(not shown)';
}

function unknownRemedy(schema: z.ZodType, given: unknown, path: readonly PropertyKey[], name: string): string {
  const right = rightName(schema, given, path, name);
  if (right !== undefined) return `write it as ${right}`;
  const meant = meantSetting(schema, path, name);
  return `remove it, there is no such setting${meant === undefined ? '' : `; did you mean ${meant}?`}`;
}

/** Reported before other errors: a setting that seems to be missing may only be misspelt. */
function unknownSetting(
  schema: z.ZodType,
  given: unknown,
  { path, keys: [name = ''] }: z.core.$ZodIssueUnrecognizedKeys,
): UserInputError {
  const value = valueAt(given, [...path, name]) ?? null;
  return new UserInputError([...path, name].join('.'), shown(name, value), unknownRemedy(schema, given, path, name));
}

/**
 * `given` with the schema's defaults filled in.
 * Errors: `UserInputError` for an unknown setting, else for the first invalid field.
 */
export function parseSettings<T>(schema: z.ZodType<T>, given: unknown): T {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(innermost);
  const [unknown] = issues.filter((issue) => issue.code === 'unrecognized_keys');
  if (unknown) throw unknownSetting(schema, given, unknown);
  const [issue] = issues;
  const path = issue?.path ?? [];
  // A name without a value (`steps:`) counts as missing.
  const value = valueAt(given, path) ?? undefined;
  throw new UserInputError(
    path.join('.') || 'configuration',
    value,
    issue ? remedyOf(issue, settingsAt(schema, path)) : 'see the documentation',
  );
}

type ParsedConfig = z.output<typeof runConfigSchema>;

/** Errors: `UserInputError` for the codec of servers: a policy that is trained samples token ids. */
export function checkCodec({ codec }: Pick<ParsedConfig['agent'], 'codec'>): void {
  if (codec !== 'server') return;
  const text = TEXT_CODECS.join(', ');
  throw new UserInputError(
    'agent.codec',
    codec,
    `give one of ${text}: only an endpoint that is asked in chat parses calls itself`,
  );
}

/** In async mode all groups of a step are in one history of the run: it can only continue as new between two steps. */
function checkGroups(tasks: number, training: ParsedConfig['training']): void {
  const bound = maxStalenessOf(training);
  const most = mostGroupsOfStep(bound);
  if (training.mode !== 'async' || tasks <= most) return;
  if (most < 1)
    throw new UserInputError('training.maxStalenessSteps', bound, `give at most ${MOST_GROUPS_OF_A_HISTORY - 2}`);
  throw new UserInputError(
    'batch.tasks',
    tasks,
    `give at most ${most} (with maxStalenessSteps: ${bound}) and more steps, or training.mode: sync or one-step-off`,
  );
}

/** Errors: `UserInputError` for a group or a step that cannot be drawn, or from which nothing could be learned. */
function checkBatch({ batch, training, algorithm }: Pick<ParsedConfig, 'batch' | 'training' | 'algorithm'>): void {
  const { mode } = training;
  const {
    tasks,
    samples,
    dynamicSampling: { type, maxSampleBatches },
  } = batch;
  const { advantage = '', zeroVarianceFilter } = algorithm as Partial<AlgorithmSettings>;
  if (samples < 2 && comparesGroups(advantage)) {
    throw new UserInputError(
      'batch.samples',
      samples,
      `give 2 or more: ${advantage} compares the rollouts of a group with each other (reinforce++ and gae do not)`,
    );
  }
  const drawn = tasks * (type === 'none' ? 1 : maxSampleBatches);
  if (drawn > MOST_TASKS)
    throw new UserInputError(
      'batch.tasks',
      tasks,
      `give less: a step may draw ${MOST_TASKS} tasks (times maxSampleBatches) at most`,
    );
  if (drawn * samples > MOST_ROLLOUTS)
    throw new UserInputError('batch.samples', samples, `give less: a step may have ${MOST_ROLLOUTS} rollouts at most`);
  checkGroups(tasks, training);
  if (type === 'none') return;
  if (type === 'replace' && mode === 'async') {
    throw new UserInputError(
      'batch.dynamicSampling.type',
      type,
      'give filter, or training.mode: sync or one-step-off: in async mode groups are trained on as they end, ' +
        'and no batch is judged as a whole',
    );
  }
  if (zeroVarianceFilter === false) {
    throw new UserInputError(
      'algorithm.zeroVarianceFilter',
      false,
      'give true, or batch.dynamicSampling.type: none: dynamic sampling trains only on groups that vary',
    );
  }
}

/**
 * Fills in the defaults. Relative paths start at `cwd`, those of modules and tasks at the configuration's `folder`.
 * Errors: `UserInputError` for the first invalid field.
 */
export function resolveRunConfig(given: unknown, cwd: string, folder = cwd): RunConfig {
  refuseEndpoint(given);
  const judged = judgesIn(given);
  const { task, tasks, modules, ...config } = parseSettings(runConfigSchema, given);
  const entries = resolveTaskEntries({ task, tasks }, folder);
  const { offPolicyCorrection, critic } = config.algorithm as Partial<AlgorithmSettings>;
  if (modules === undefined) checkNames(config.algorithm as Partial<AlgorithmSettings>);
  checkBatch(config);
  checkCodec(config.agent);
  checkPriced(
    config.budget as Budget | undefined,
    Object.values(judged.judges ?? {}).map(({ endpoint }) => endpoint),
  );
  // Rollouts that overlap with updates are off policy: corrected by default, unless the loss does it itself.
  const corrects =
    config.training.mode !== 'sync' && offPolicyCorrection === undefined && needsCorrection(config.algorithm);
  const correction = corrects ? { offPolicyCorrection: offPolicyCorrectionSchema.parse({}) } : {};
  const absolute = (path: string) => (isAbsolute(path) ? path : resolve(cwd, path));
  const { server: _, ...policy } = config.policy;
  return {
    ...config,
    ...judged,
    dir: absolute(config.dir),
    ...resolveModules(modules, folder),
    tasks: entries,
    policy: { ...policy, base: baseUri(config.policy, cwd) },
    algorithm: {
      ...config.algorithm,
      ...correction,
      ...(critic?.base !== undefined && { critic: { ...critic, base: modelUri(critic.base, cwd) } }),
    },
  } as unknown as RunConfig;
}
