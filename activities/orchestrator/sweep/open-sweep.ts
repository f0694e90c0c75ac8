/**
 * Opens a sweep: its policies are resolved once, and from then on its name stands for one configuration and these
 * policies. A sweep that is started again is in its next round; rollouts of earlier rounds without an end get one.
 */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { Store } from '../../../store/store.ts';
import { checkContext, checkSampling } from '../../../config/backend-settings.ts';
import type { ObjectRef } from '../../../protocol/stages.ts';
import { backendOfUri, EMBEDDED } from '../../../trainer/backends/registry.ts';
import { fingerprintOf } from '../../../trainer/checkpoints/policy-files.ts';
import type {
  OpenedSweep,
  ResolvedPolicy,
  SettledSweep,
  SweepCell,
  SweepConfig,
  SweepPolicy,
} from '../../../protocol/eval.ts';
import { pathOf } from '../../../protocol/policy-uri.ts';
import type { RolloutPolicy } from '../../../protocol/policy.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { ConfigChange } from '../../../protocol/run-config.ts';
import { type Budgets, budgetsIn, budgetsOf } from '../../../reports/budgets.ts';
import type { TaskCatalog } from '../../../protocol/task-key.ts';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { putCatalog, readCatalog } from '../../../store/read-records.ts';
import { checkPolicy, describedBy } from '../open-policy.ts';
import { refuseOtherConfig } from '../open-run.ts';
import { refuseOtherTools, type ToolsDeps, type ToolsDigests, toolsOfTasks } from '../tools-of-tasks.ts';
import { writeAtomically } from '../../../store/atomic-write.ts';
import {
  type EvalEnd,
  evalFolder,
  evalKeys,
  type EvalRecord,
  type EvalRound,
  evalRun,
} from '../../../reports/evaluation/eval-records.ts';
import { openModules, type OpenModulesDeps } from '../open-modules.ts';
import { parsePolicyReference } from '../../../config/policy-reference.ts';
import { openReplay } from './open-replay.ts';
import { checkEndpoint, resolvePolicy } from './resolve-policy.ts';
import { settleEnds } from './settle-ends.ts';
import { checkAgent } from '../../../config/open-tasks.ts';
import { checkTasks, resolveSweepConfig, taskIdsOf } from '../../../config/sweep-config.ts';

export interface SweepDeps extends OpenModulesDeps, ToolsDeps {}

export interface OpenSweepInput {
  readonly given: unknown;
  /** The name in the workflow's id. */
  readonly eval: string;
  /** Of the workflow's first execution: every start has its own. */
  readonly execution: string;
}

/**
 * The configuration with the name in the workflow's id. For a scheduled sweep that is the configured name and the time.
 */
function named(given: unknown, id: string): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given;
  const said = (given as Record<string, unknown>)['eval'];
  if (said !== undefined && said !== id && !(typeof said === 'string' && id.startsWith(`${said}-`))) {
    throw new UserInputError(
      'eval',
      said,
      `the workflow's id is eval/${id}: leave \`eval\` out, or use the same name in both`,
    );
  }
  return { ...given, eval: id };
}

/** Settings of the access to a server, and its limits: they do not affect the policy. */
const ACCESS: readonly string[] = [
  'apiKeyEnv',
  'timeoutSeconds',
  'maxConcurrent',
  'requestsPerMinute',
  'tokensPerMinute',
  'maxTries',
  'patienceSeconds',
  'pricePerMillionTokens',
];

function comparablePolicy(policy: SweepPolicy): object {
  if (!('endpoint' in policy)) return { policy: policy.policy };
  return { endpoint: Object.fromEntries(Object.entries(policy.endpoint).filter(([name]) => !ACCESS.includes(name))) };
}

/** The settings on which results depend. They do not depend on how many sandboxes a host can hold. */
function comparable({
  dispatcher: _dispatcher,
  maxFailed: _maxFailed,
  dir: _dir,
  budget: _budget,
  judges = {},
  policies,
  ...rest
}: SweepConfig): object {
  const ofJudges = Object.entries(judges).map(([name, { endpoint, sampling }]) => [
    name,
    { sampling, ...comparablePolicy({ name, endpoint }) },
  ]);
  return {
    ...rest,
    judges: Object.fromEntries(ofJudges),
    policies: Object.fromEntries(policies.map((policy) => [policy.name, comparablePolicy(policy)])),
  };
}

/** Errors: `UserInputError` for what a policy's backend does not have. */
function checkAbilities(
  { sampling, agent }: SweepConfig,
  policies: readonly ResolvedPolicy[],
  modules: ObjectRef | undefined,
): void {
  for (const policy of policies) {
    if ('endpoint' in policy || 'scripted' in policy.ref) continue;
    const backend = backendOfUri(policy.ref.uri, modules) ?? EMBEDDED;
    for (const { name, ...asked } of sampling) checkSampling(backend, asked, `sampling.${name}`);
    checkContext(backend, agent.maxContextTokens);
  }
}

/** Errors: `UserInputError` for `field` if the policy is gone. */
async function fingerprintNow(uri: string, field: string, modules: ObjectRef | undefined): Promise<string> {
  const backend = backendOfUri(uri, modules, field);
  if (backend !== undefined) return (await describedBy(backend, uri, field)).digest;
  await checkPolicy(uri, field);
  return fingerprintOf(pathOf(uri, field));
}

/**
 * If weights changed under the same name, their results would be reported as the same policy's.
 * Errors: `UserInputError` for the first setting or policy that is not what the eval started with.
 */
export async function checkUnchanged(config: SettledSweep, record: EvalRecord, modules?: ObjectRef): Promise<void> {
  refuseOtherConfig({ kind: 'eval', name: config.eval, known: comparable(record.config), asked: comparable(config) });
  for (const known of record.policies) {
    // An endpoint's settings are compared above; what its server holds cannot be.
    if ('endpoint' in known || known.from !== undefined) continue;
    const { name, policy, ref, fingerprint } = known;
    if ('scripted' in ref) continue;
    if ((await fingerprintNow(ref.uri, `policies.${name}`, modules)) === fingerprint) continue;
    throw new UserInputError(
      `policies.${name}`,
      policy,
      `its files have changed since eval ${config.eval} started; give another eval name`,
    );
  }
}

async function resolved(
  policy: SweepPolicy,
  evalDir: string,
  store: Store,
  { tasks }: SettledSweep,
  catalog: TaskCatalog | undefined,
  modules?: ObjectRef,
): Promise<ResolvedPolicy> {
  if (!('endpoint' in policy)) {
    const reference = parsePolicyReference(policy.policy);
    if (reference.kind !== 'replay') return resolvePolicy(policy, evalDir, store, modules);
    const [field, text] = [`policies.${policy.name}`, policy.policy];
    const asked = { of: reference.of, field, text, tasks: taskIdsOf(tasks), sources: catalog?.sources };
    const ref = await openReplay(asked, store);
    return { ...policy, ref, fingerprint: ref.rollouts.replace('sha256:', '') };
  }
  await checkEndpoint(policy.endpoint, `policies.${policy.name}`);
  return policy;
}

/** By the first task of each split. */
async function toolsOf(
  { tasks: selected }: SettledSweep,
  catalog: ObjectRef | undefined,
  modules: ObjectRef | undefined,
  deps: ToolsDeps,
): Promise<ToolsDigests | undefined> {
  const of = catalog === undefined ? { ...(modules && { modules }) } : { catalog };
  const splits = Map.groupBy(taskIdsOf(selected), (id) => id.replace(/\d+$/u, ''));
  return toolsOfTasks(
    [...splits.values()].flatMap(([task]) => (task === undefined ? [] : [{ task, ...of }])),
    deps,
  );
}

async function recordOf(
  config: SettledSweep,
  asked: TaskCatalog | undefined,
  deps: SweepDeps,
  modules?: ObjectRef,
): Promise<EvalRecord> {
  const { store } = deps;
  const key = evalKeys.record(config.eval);
  const catalog = asked && (await putCatalog(asked, store));
  const tools = await toolsOf(config, catalog, modules, deps);
  const known = await store.get<EvalRecord>(key);
  if (known) {
    await checkUnchanged(config, known, modules);
    refuseOtherTools(`eval ${config.eval}`, { began: known.tools, now: tools });
    if (known.catalog === catalog) return known;
    throw new UserInputError(
      'tasks',
      config.tasks,
      `their records have changed since eval ${config.eval} started: restore the files, or give another eval name`,
    );
  }
  const evalDir = evalFolder(config.dir, config.eval);
  await mkdir(evalDir, { recursive: true });
  const policies: ResolvedPolicy[] = [];
  for (const policy of config.policies) policies.push(await resolved(policy, evalDir, store, config, asked, modules));
  checkAbilities(config, policies, modules);
  return store.putOnce<EvalRecord>(key, {
    eval: config.eval,
    evalDir,
    startedAt: new Date().toISOString(),
    config,
    ...(catalog && { catalog }),
    policies,
    ...(tools && { tools }),
  });
}

/** The same execution is in the same round however often it asks. */
async function roundOf(id: string, execution: string, store: Store): Promise<number> {
  for (let round = 1; ; round += 1) {
    const kept = await store.putOnce<EvalRound>(evalKeys.round(id, round), {
      execution,
      startedAt: new Date().toISOString(),
    });
    if (kept.execution === execution) return round;
  }
}

/** An endpoint has its current settings: a limit or a key's name may have been corrected since the eval started. */
function refOf(known: ResolvedPolicy, config: SweepConfig): RolloutPolicy {
  if (!('endpoint' in known)) return known.ref;
  const asked = config.policies.find(({ name }) => name === known.name);
  return { endpoint: asked && 'endpoint' in asked ? asked.endpoint : known.endpoint, version: 0 };
}

function cellsOf({ policies }: EvalRecord, config: SweepConfig): SweepCell[] {
  return policies.flatMap((policy) =>
    config.sampling.map(({ name, samples, ...sampling }) => ({
      name: `${policy.name}/${name}`,
      policyName: policy.name,
      samplingName: name,
      policy: refOf(policy, config),
      sampling,
      samples,
    })),
  );
}

/**
 * The eval's budgets now. Those that its configuration has changed since it started are recorded, like changes on the
 * live eval; the last change counts.
 */
async function budgetsNow(config: SweepConfig, record: EvalRecord, round: number, store: Store): Promise<Budgets> {
  const run = evalRun(config.eval);
  const [began, asked] = [leavesOf(budgetsIn(record.config, [])), leavesOf(budgetsIn(config, []))];
  const now = await budgetsOf(run, store);
  const known = leavesOf(now ?? budgetsIn(config, []));
  const { startedAt: at = '' } = (await store.get<EvalRound>(evalKeys.round(config.eval, round))) ?? {};
  const changes: ConfigChange[] = [...asked].flatMap(([field, to]) =>
    to === began.get(field) || to === known.get(field)
      ? []
      : [{ at, step: 0, field, from: known.get(field) ?? null, to }],
  );
  if (changes.length > 0) await store.putOnce(keys.changes(run, `${at}/00000/round-${round}`), changes);
  return (await budgetsOf(run, store)) ?? budgetsIn(config, []);
}

/** By the field's name in the configuration. */
function leavesOf({ budget, judges }: Budgets): Map<string, number> {
  const ofJudges = Object.entries(judges).map(([name, one]) => [`judges.${name}.`, one] as const);
  return new Map(
    [['', budget] as const, ...ofJudges].flatMap(([at, one]) =>
      Object.entries(one).map(([field, value]) => [`${at}budget.${field}`, value as number] as const),
    ),
  );
}

/** Milliseconds in which it was not paused in its earlier rounds. */
async function workedMsOf(id: string, store: Store): Promise<number> {
  const ends = await store.list<EvalEnd>(evalKeys.ends(id));
  return Math.max(0, ...ends.map(({ value }) => value.workedMs ?? 0));
}

/** Errors: `UserInputError` for what cannot be used, and for a name that stands for something else already. */
export async function openSweep({ given, eval: id, execution }: OpenSweepInput, deps: SweepDeps): Promise<OpenedSweep> {
  const { store, tasks, moduleGuard } = deps;
  const asked = resolveSweepConfig(named(given, id), process.cwd());
  const known = await store.get<EvalRecord>(evalKeys.record(id));
  const modules = await openModules(asked.modules, known?.catalog, { store, moduleGuard });
  const begun = known?.catalog === undefined ? undefined : (await readCatalog(known.catalog, store)).sources;
  checkAgent(asked.agent, modules);
  const { sources, ...settled } = await checkTasks(asked.tasks, tasks, modules, asked.judges, begun);
  const config: SettledSweep = { ...asked, ...settled };
  const record = await recordOf(config, sources && { sources, ...(modules && { modules }) }, deps, modules);
  const round = await roundOf(id, execution, store);
  if (round > 1) await settleEnds(id, 'superseded', store, round);
  await mkdir(record.evalDir, { recursive: true });
  await writeAtomically(join(record.evalDir, 'config.yaml'), stringify(config));
  const { seed, judges, agent, dispatcher, maxFailed } = config;
  const { budget } = await budgetsNow(config, record, round, store);
  return {
    eval: id,
    evalDir: record.evalDir,
    round,
    seed,
    ...(judges && { judges }),
    budget,
    workedMs: await workedMsOf(id, store),
    agent,
    dispatcher,
    maxFailed,
    ...(record.catalog && { catalog: record.catalog }),
    cells: cellsOf(record, config),
  };
}
