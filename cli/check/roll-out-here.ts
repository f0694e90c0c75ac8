/**
 * Rollouts of scripted policies in this process, without a stack: the activities and the loop are those of real
 * rollouts, on a store that is removed at the end. Nothing is retried, so that a grader's exception is seen at once.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { type GenerateDeps, generateTurn } from '../../activities/generate/generate.ts';
import { type PolicyTokenizer, promptTokens } from '../../activities/generate/sample-ids.ts';
import { EnvironmentFailed } from '../../activities/failures.ts';
import { orAborted } from '../../activities/or-aborted.ts';
import { OwnClock, within } from '../../activities/own-time.ts';
import { GraderFailed } from '../../activities/reward/grading-rounds.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import type { Bundle } from '../../modules/bundle.ts';
import type { ModulesRecord } from '../../modules/import-bundle.ts';
import { classOfError } from '../../protocol/failure-policy.ts';
import type { ScriptedPolicy, ScriptName } from '../../protocol/policy.ts';
import { keys } from '../../protocol/record-keys.ts';
import { placeOf } from '../../protocol/frames.ts';
import { type AgentSettings, DEFAULT_AGENT } from '../../protocol/rollout.ts';
import type { Asking, Attempt, Card, CollectOutcome, GenerateInput, ObjectRef } from '../../protocol/stages.ts';
import type { TaskCatalog } from '../../protocol/task-key.ts';
import type { HostProvider } from '../../sandboxes/supervised/provider.ts';
import { putCatalog } from '../../store/read-records.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import type { Task } from '../../tasks/environment.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { openSandboxProvider } from '../../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../../workers/settings.ts';
import {
  collectsWith,
  initialState,
  type LoopEvent,
  type LoopState,
  reduce,
  stageOf,
} from '../../workflows/rollout/rollout-loop.ts';

const HOST = 'check';
const RUN = 'check';
const TTL_SECONDS = 1800;
/** Of one grading, if the task sets no `gradeSeconds`. */
const GRADE_SECONDS = 900;
/** Of what makes one prompt. */
const PROMPT_SECONDS = 600;

interface Parts {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly catalog: ObjectRef;
  readonly agent: AgentSettings;
  readonly asking: Asking;
  readonly activities: ReturnType<typeof createAgentRunActivities> &
    ReturnType<typeof createInitActivities> &
    ReturnType<typeof createRewardActivities>;
}

/** Counts the tokens of a rollout's first prompt. */
export type CountPrompt = (tokenizer: PolicyTokenizer) => Promise<number>;
export type OnPrompt = (count: CountPrompt) => Promise<void>;

/** One rollout between its activities. */
interface UnderWay {
  readonly rollout: string;
  readonly task: string;
  readonly policy: ScriptedPolicy;
  /** Called before the first turn. */
  readonly onPrompt?: OnPrompt;
  card?: Card;
  collected?: CollectOutcome;
}

const limitsOf = ({ maxTurns }: AgentSettings) => ({ maxTurns, maxAttempts: 1, maxRestores: 0 });

/** The activities' context: only its signal is real. */
function asActivity<T>(cancellationSignal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const context = { info: {}, heartbeat: () => undefined, cancellationSignal };
  return asyncLocalStorage.run(context as unknown as Context, work);
}

/** Ends `work` after `seconds`, whether it heeds its signal or not. */
function inTime<T>(what: string, seconds: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const limit = {
    ms: seconds * 1000,
    clock: new OwnClock(),
    over: () => new GraderFailed(`${what} took longer than gradeSeconds (${seconds})`),
  };
  return within(limit, signal, (own) => asActivity(own, work));
}

/** Of a first turn. */
function generateInput(attempt: Attempt, policy: ScriptedPolicy, agent: AgentSettings): GenerateInput {
  const { type, options, codec, preamble, reasoning, maxContextTokens } = agent;
  const { maxTurns, maxDepth, maxSegments } = { ...DEFAULT_AGENT, ...agent };
  const conversation = { ...(codec && { codec }), ...(preamble && { preamble }), ...(reasoning && { reasoning }) };
  return {
    ...attempt,
    ...(type !== undefined && { agent: { type, ...(options && { options }) } }),
    ...(Object.keys(conversation).length > 0 && { conversation }),
    limits: { maxTurns, maxDepth, maxSegments },
    turn: 1,
    policy,
    sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: 1 },
    ...(maxContextTokens !== undefined && { maxContextTokens }),
    noiseKey: '',
  };
}

/** The first turn of an attempt whose policy is a script. */
export const firstInput = (attempt: Attempt, agent: AgentSettings): GenerateInput =>
  generateInput(attempt, { scripted: 'empty', version: 0 }, agent);

async function perform(state: LoopState, one: UnderWay, parts: Parts, signal: AbortSignal): Promise<LoopEvent> {
  const { store, tasks, catalog, agent, asking, activities } = parts;
  const { rollout, task, policy } = one;
  const attempt = { run: RUN, rollout, attempt: 1, task, catalog };
  const { turn, finish = 'max-turns' } = state;
  const sandbox = one.card?.sandbox ?? undefined;
  switch (state.phase) {
    case 'prepare': {
      one.card = await activities.prepare({ ...attempt, ...asking });
      return { type: 'prepared', sandboxless: one.card.sandbox === null, inPlace: one.card.gradedIn === 'agents' };
    }
    case 'generate': {
      const input = { ...generateInput(attempt, policy, agent), ...placeOf(state.frames), turn };
      if (turn === 1) await one.onPrompt?.((tokenizer) => promptTokens(input, tokenizer, { store, tasks }));
      // A scripted policy asks for no engine, tokenizer or endpoint.
      const {
        kind,
        calls,
        agent: callee,
      } = await generateTurn(input, { store, tasks } as unknown as GenerateDeps, signal);
      return { type: 'generated', kind, calls, ...(callee !== undefined && { agent: callee }) };
    }
    case 'act': {
      const collect = collectsWith(state, limitsOf(agent));
      const { toolTimeoutSeconds } = agent;
      const input = { ...attempt, ...asking, ...sandbox, turn, toolTimeoutSeconds, ...(collect && { collect }) };
      const { unfinished, done, collected } = await activities.agentRun(input);
      if (collected) one.collected = collected;
      return {
        type: 'acted',
        ...(unfinished && { unfinished }),
        ...(done && { done }),
        collected: collected !== undefined,
      };
    }
    case 'collect':
      if (sandbox === undefined) throw new TypeError(`${rollout} has no sandbox to collect from`);
      one.collected = await activities.collect({ ...attempt, ...sandbox });
      return { type: 'collected' };
    case 'grade': {
      const seconds = one.card?.limits?.gradeSeconds ?? GRADE_SECONDS;
      const input = {
        ...attempt,
        ...asking,
        finish,
        turns: turn,
        ...(one.collected && { artifact: one.collected.artifact }),
      };
      const verdict = await inTime(`grade of ${task}`, seconds, signal, () =>
        one.card?.gradedIn === 'agents' && sandbox !== undefined
          ? activities.gradeInPlace({ ...input, ...sandbox })
          : activities.computeReward(input),
      );
      if (verdict.code === 'graded') return { ...verdict, type: 'graded' };
      return { type: 'failed', failure: 'grader-failed', message: verdict.reason };
    }
    default:
      throw new TypeError(`longhaul check cannot perform the phase ${state.phase}: use longhaul eval`);
  }
}

/** Errors become the rollout's failure, with the message of the innermost cause. */
function failed(error: unknown): LoopEvent {
  const type = (error as { type?: string | null } | undefined)?.type ?? (error instanceof Error ? error.name : '');
  return {
    type: 'failed',
    failure: classOfError(type),
    message: error instanceof Error ? error.message : String(error),
  };
}

async function rollOut(one: UnderWay, parts: Parts, signal: AbortSignal): Promise<LoopState> {
  let state = initialState;
  while (stageOf(state) !== 'done') {
    signal.throwIfAborted();
    const before = state;
    const event = await orAborted(() => perform(before, one, parts, signal), signal).catch((error: unknown) => {
      if (signal.aborted) throw error;
      return failed(error);
    });
    state = reduce(state, event, limitsOf(parts.agent));
  }
  const sandbox = one.card?.sandbox;
  if (sandbox) {
    const { task, rollout } = one;
    await parts.activities.releaseSandbox({ run: RUN, rollout, attempt: 1, task, ...sandbox }).catch(() => undefined);
  }
  return state;
}

/** Makes sandboxes when the first one is asked for: most tasks of messages need none, and no machine for them. */
export function lazily(open: () => Promise<HostProvider>): {
  provider: HostProvider;
  opened: () => Promise<HostProvider> | undefined;
} {
  let opening: Promise<HostProvider> | undefined;
  const provider = new Proxy({} as HostProvider, {
    get: (_, name) =>
      name === 'then'
        ? undefined
        : async (...given: unknown[]) => {
            const real = await (opening ??= open());
            const method = Reflect.get(real, name) as ((...all: unknown[]) => unknown) | undefined;
            return method?.apply(real, given);
          },
  });
  return { provider, opened: () => opening };
}

export interface Here {
  /** Errors: those of loading the task. */
  hasOracle(task: string): Promise<boolean>;
  load(task: string): Promise<Task>;
  /** The end of one rollout of a task by a scripted policy. Errors: only the signal's. */
  rollOut(task: string, policy: ScriptName, signal: AbortSignal, onPrompt?: OnPrompt): Promise<LoopState>;
  /** With a `start` or MCP servers it prepares the task. Errors: those of its `start`, and of `onPrompt`. */
  prompt(task: string, onPrompt: OnPrompt, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** `say` receives lines on what takes long, such as building an image. */
export async function openHere(
  sources: TaskCatalog['sources'],
  bundle: Bundle | undefined,
  agent: AgentSettings,
  asking: Asking,
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
): Promise<Here> {
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-check-'));
  const store = openSqliteStore(join(dir, 'store'));
  if (bundle !== undefined) {
    const { digest, code, paths } = bundle;
    await store.putObject(code);
    await store.putOnce<ModulesRecord>(keys.modules(digest), { digest, paths, at: new Date().toISOString() });
  }
  const catalog = await putCatalog({ sources, ...(bundle && { modules: bundle.digest }) }, store);
  const tasks = new TaskLoader(store);
  const sandbox = readSandboxSettings(env);
  const { provider, opened } = lazily(() => openSandboxProvider({ sandboxDir: join(dir, 'sandboxes'), sandbox, say }));
  const endpoints = new EndpointClient(env);
  const place = {
    store,
    tasks,
    endpoints,
    provider,
    host: HOST,
    maxLiveSandboxes: 1000,
    sandboxTtlSeconds: TTL_SECONDS,
  };
  const activities = {
    ...createInitActivities(place),
    ...createAgentRunActivities(place),
    ...createRewardActivities(place),
  };
  const parts: Parts = { store, tasks, catalog, agent, asking, activities };
  let made = 0;
  return {
    hasOracle: async (task) => (await tasks.load({ task, catalog })).task.oracle !== undefined,
    load: async (task) => (await tasks.load({ task, catalog })).task,
    rollOut: (task, scripted, signal, onPrompt) => {
      made += 1;
      const policy = { scripted, version: 0 };
      const one = { rollout: `check/${made}`, task, policy, ...(onPrompt && { onPrompt }) };
      return asActivity(signal, () => rollOut(one, parts, signal));
    },
    prompt: (task, onPrompt, signal) => {
      made += 1;
      const attempt = { run: RUN, rollout: `check/${made}`, attempt: 1, task, catalog };
      const over = () => new EnvironmentFailed(`the prompt of ${task} was not there after ${PROMPT_SECONDS} s`);
      return within({ ms: PROMPT_SECONDS * 1000, clock: new OwnClock(), over }, signal, (own) =>
        asActivity(own, async () => {
          const { task: loaded } = await tasks.load({ task, catalog });
          if (loaded.start !== undefined || loaded.mcp !== undefined)
            await activities.prepare({ ...attempt, ...asking });
          const input = firstInput(attempt, agent);
          await onPrompt((tokenizer) => promptTokens(input, tokenizer, { store, tasks }));
        }),
      );
    },
    async close() {
      const real = await opened()?.catch(() => undefined);
      await real?.sweep(() => false).catch(() => undefined);
      await store.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
