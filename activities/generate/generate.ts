/**
 * One turn of the policy: ids in, ids out. The turn is sampled once under its key; a repeated call returns the turn
 * that was recorded, and what was sampled is never re-encoded.
 */

import type { Store } from '../../store/store.ts';
import { CheckpointTorn } from '../../trainer/checkpoints/verified-checkpoint.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { folderOf } from '../../protocol/policy-uri.ts';
import type { PolicyRef, RolloutPolicy } from '../../protocol/policy.ts';
import type { GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { GenerateRecord, UpdateEntry } from '../../protocol/records.ts';
import { keys, padded } from '../../protocol/record-keys.ts';
import { contextTokensAfter, sampledTokensOf } from '../../protocol/transcript.ts';
import { turnsOf } from '../../store/read-records.ts';
import type { Backend, Backends } from '../backends/backend.ts';
import { costOf, type Spending } from '../../protocol/budget.ts';
import { POLICY, spentEvent } from '../../reports/spending.ts';
import { checkBudget } from '../budgets.ts';
import { checkWorkersLost } from '../tries.ts';
import { whilePatient } from './endpoint-patience.ts';
import { isCallInput, sampleCall } from './sample-call.ts';
import { sampleEndpoint } from './sample-endpoint.ts';
import { type IdsCall, type PolicyTokenizer, sampleIds } from './sample-ids.ts';
import { sampleScript } from './sample-script.ts';

export type { PolicyTokenizer } from './sample-ids.ts';

export interface GenerateDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly backends: Backends;
  /** For policies behind other servers. */
  readonly endpoints: EndpointClient;
  /** Reads the tokenizer in a directory, for an endpoint. */
  readonly tokenizerOf: (dir: string) => Promise<PolicyTokenizer>;
  /** This worker's name; absent if there is no other worker that could sample a rollout's next turn. */
  readonly worker?: string;
}

const backendOf = ({ uri }: PolicyRef, input: GenerateInput, { backends, tasks }: GenerateDeps): Promise<Backend> =>
  backends.of(uri, async () => (await tasks.load(input)).modules);

/**
 * Refuses a policy that never existed: its name is wrong, nobody could restore it, and a held rollout would wait
 * forever. One that the rollout has sampled from, or that belongs to a recorded run, did exist. Errors:
 * `UserInputError`.
 */
async function refuseUnknown(
  { uri, digest }: PolicyRef,
  { run, attempt, turn }: GenerateInput,
  backend: Backend,
  store: Store,
): Promise<void> {
  if (digest !== undefined || attempt > 1 || turn > 1 || backend.hasPolicy(uri)) return;
  if ((await store.get(keys.run(run))) !== undefined) return;
  throw new UserInputError(
    'policy.uri',
    uri,
    'the gpu worker finds no such folder: give a directory in Hugging Face layout',
  );
}

/**
 * Errors: `CheckpointTorn` if the policy is missing, or is another one than the rollout was started with;
 * `UserInputError` if it never existed.
 */
async function checkedDigest(policy: PolicyRef, input: GenerateInput, backend: Backend, store: Store): Promise<string> {
  const { uri, digest } = policy;
  const found = await backend.digestOf(uri).catch(async (error: unknown) => {
    if (error instanceof CheckpointTorn) await refuseUnknown(policy, input, backend, store);
    throw error;
  });
  if (digest === undefined || digest === found) return found;
  throw new CheckpointTorn(folderOf(uri) ?? uri, 'its files are not those with which the rollout was started');
}

/** The policy itself, or the newest version that its run has made since. The turn's record names the version. */
async function newest(policy: RolloutPolicy, store: Store): Promise<RolloutPolicy> {
  if (!('newestOf' in policy) || policy.newestOf === undefined) return policy;
  let { uri, version } = policy;
  for (;;) {
    const next = await store.get<UpdateEntry>(keys.update(policy.newestOf, version + 1));
    if (!next) return { uri, version };
    ({ uri, version } = next.policy);
  }
}

/** The input with a context that the policy has on this engine: the agent sees what is left of it. */
async function withinContext(input: GenerateInput, uri: string, backend: Backend): Promise<GenerateInput> {
  const tokens = await backend.contextOf(uri);
  return tokens === undefined
    ? input
    : { ...input, maxContextTokens: Math.min(input.maxContextTokens ?? tokens, tokens) };
}

async function sample(
  input: GenerateInput,
  deps: GenerateDeps,
  signal: AbortSignal,
  priority: number | undefined,
): Promise<GenerateRecord> {
  const { policy, rollout, noiseKey } = input;
  if ('scripted' in policy) return sampleScript(policy, input, deps, signal);
  if ('endpoint' in policy) {
    const { endpoint } = policy;
    return whilePatient(endpoint, deps.store, signal, (own, onFailure) =>
      sampleEndpoint(input, endpoint, { ...deps, endpoints: deps.endpoints.reporting(onFailure) }, own),
    );
  }
  const { uri, version } = policy;
  const backend = await backendOf(policy, input, deps);
  const digest = await checkedDigest(policy, input, backend, deps.store);
  let cost: GenerateCost | undefined;
  const within = await withinContext(input, uri, backend);
  const tokenizer = await backend.tokenizerOf(uri);
  const ask = (call: IdsCall) => {
    const request = { policy: { uri, version, digest }, rollout, noiseKey, ...call };
    const placed = { ...request, ...(priority === undefined ? {} : { priority }) };
    return backend.sample(placed, signal, (reported) => (cost = reported));
  };
  const record = await (isCallInput(within)
    ? sampleCall(within, tokenizer, deps, ask, backend.takesStop)
    : sampleIds(within, tokenizer, deps, ask));
  return { ...record, digest, ...(cost && { cost }) };
}

function lineOf({ parsed, end }: GenerateRecord): string {
  if (end !== 'stop') return end;
  if (parsed.kind !== 'calls') return parsed.kind;
  const calls = parsed.calls.map(({ name, arguments: given }) => {
    const words = Object.values(given).map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    return `${name} ${words.join(' ')}`.trim().replaceAll(/\s+/g, ' ').slice(0, 80);
  });
  return calls.join('; ').slice(0, 160);
}

function kindOf({ command, end }: GenerateRecord): GenerateOutcome['kind'] {
  if (end === 'context' || end === 'refused') return end;
  return end === 'length' || command === undefined ? 'response-cut' : command.do;
}

function callsToRun({ command, parsed }: GenerateRecord): number {
  if (parsed.kind !== 'calls') return 0;
  if (command?.do === 'delegate') return command.call ?? 0;
  if (command?.do !== 'finish') return parsed.calls.length;
  const finish = parsed.calls.findIndex((call) => call.name === 'finish');
  return finish < 0 ? parsed.calls.length : finish;
}

/** `undefined` if the checkpoint is missing: retention may have removed it, and its records stay valid. */
async function presentDigest(input: GenerateInput, deps: GenerateDeps): Promise<string | undefined> {
  const { policy } = input;
  if (!('uri' in policy)) return undefined;
  if (policy.digest !== undefined) return policy.digest;
  return (await backendOf(policy, input, deps)).digestOf(policy.uri).catch(() => undefined);
}

/** A rollout's records belong to one policy: those of another policy would appear as its own. */
async function checkSamePolicy(
  key: string,
  { version, endpoint, scripted, digest }: GenerateRecord,
  input: GenerateInput,
  deps: GenerateDeps,
): Promise<void> {
  const { policy } = input;
  const remedy = (by: string) => `${key} was sampled by ${by}; use another rollout id for another policy`;
  const follows = 'newestOf' in policy && policy.newestOf !== undefined && version > policy.version;
  if (version !== policy.version && !follows)
    throw new UserInputError('policy.version', policy.version, remedy(`version ${version}`));
  const asked = 'endpoint' in policy ? policy.endpoint.model : 'scripted' in policy ? policy.scripted : undefined;
  const sampledBy = endpoint?.model ?? scripted;
  if (asked !== sampledBy)
    throw new UserInputError('policy', asked ?? policy, remedy(sampledBy ?? 'a policy of a directory'));
  // If a newer version of the run has sampled the turn, the given directory holds another version.
  const now = digest === undefined || follows ? undefined : await presentDigest(input, deps);
  if (now !== undefined && now !== digest) throw new UserInputError('policy', policy, remedy('other files'));
}

/** What the turn's call used. The prompt is the whole context, as a server counts it. */
function spendingOf(
  record: GenerateRecord,
  turns: readonly GenerateRecord[],
  { policy, turn }: GenerateInput,
): Spending {
  const call = { by: POLICY, call: padded(turn) };
  // A script calls no model, and repeats what was counted where it was sampled.
  if (record.scripted !== undefined) return { ...call, prompt: 0, sampled: 0 };
  const sampled = sampledTokensOf(record);
  const isCalled = (record.end !== 'context' || sampled > 0) && record.call?.refused === undefined;
  const prompt = isCalled ? contextTokensAfter(turns) - sampled : 0;
  const usd = 'endpoint' in policy ? costOf(policy.endpoint.pricePerMillionTokens, prompt, sampled) : undefined;
  return { ...call, prompt, sampled, ...(usd !== undefined && { usd }) };
}

/** `priority`: its place in the engine's queue. */
export async function generateTurn(
  input: GenerateInput,
  deps: GenerateDeps,
  signal: AbortSignal,
  priority?: number,
): Promise<GenerateOutcome> {
  const { store } = deps;
  const key = keys.generate(input, input.turn);
  let record = await store.get<GenerateRecord>(key);
  if (!record) {
    await checkWorkersLost(store);
    await checkBudget(input.run, store);
    await store.begin(`model:${key}`);
    const policy = await newest(input.policy, store);
    record = await store.putOnce(key, await sample({ ...input, policy }, deps, signal, priority));
  }
  if (record.call?.call !== input.call?.call)
    throw new UserInputError(
      'call',
      input.call?.call ?? null,
      `${key} is the turn of ${record.call?.call ?? 'no call'}; use another rollout id for another execution`,
    );
  await checkSamePolicy(key, record, input, deps);
  const { run, rollout, attempt } = input;
  const at = new Date().toISOString();
  // Calls of a program are sampled side by side: those before this one may be without a record.
  const turns = input.call ? [record] : (await turnsOf(store, input)).slice(0, input.turn);
  await store.append([
    { run, rollout, attempt, event: 'turn', at, detail: String(input.turn) },
    spentEvent(input, spendingOf(record, turns, input)),
  ]);
  return {
    kind: kindOf(record),
    calls: callsToRun(record),
    ...(record.command?.do === 'delegate' && { agent: record.command.name }),
    contextTokens: contextTokensAfter(turns),
    sampledTokens: sampledTokensOf(record),
    line: lineOf(record),
    ...(record.cost && { ms: Math.round(record.cost.seconds * 1000) }),
    ...(deps.worker === undefined || !('uri' in input.policy) ? {} : { worker: deps.worker }),
  };
}
