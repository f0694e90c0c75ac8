/** A store on disk, scripted parts around it, and the inputs of one rollout: removed after each test. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { afterEach, beforeEach } from 'vitest';
import { type EmbeddedParts, embeddedOnly } from '../../activities/backends/embedded-backend.ts';
import type { GenerateDeps } from '../../activities/generate/generate.ts';
import { createOrchestratorActivities, type OrchestratorDeps } from '../../activities/orchestrator/orchestrator.ts';
import { rolloutIds } from '../../protocol/rollout.ts';
import { taskKey } from '../../protocol/task-key.ts';
import type { BatchManifest, OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { RolloutEventName, Store } from '../../store/store.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { OrchestratorActivities } from '../../protocol/activities.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { characterTokenizer, ScriptedEngine, ScriptedEnvironment, ScriptedProvider } from './scripted-parts.ts';

export const environment = new ScriptedEnvironment('toy');
defineEnvironment(environment);

export interface World {
  readonly dir: string;
  readonly store: Store;
  readonly engine: ScriptedEngine;
  readonly provider: ScriptedProvider;
  /** For `generateTurn`. */
  readonly deps: GenerateDeps;
  /** Of the embedded backend in `deps`. */
  readonly parts: EmbeddedParts;
}

export const RUN = 'r';

/** One world per test; read it inside of tests only. */
export function useWorld(): { readonly now: World } {
  let world: World | undefined;
  beforeEach(() => {
    const dir = mkdtempSync(join(tmpdir(), 'longhaul-activities-'));
    const store = openSqliteStore(join(dir, 'store'));
    const engine = new ScriptedEngine();
    const tokenizer = characterTokenizer();
    const parts: EmbeddedParts = {
      engine,
      tokenizerOf: async () => tokenizer,
      digestOf: async (policy) => `files of ${policy}`,
    };
    environment.verdicts = [];
    environment.graded.length = 0;
    environment.collected.length = 0;
    environment.collectFailures = 0;
    world = {
      dir,
      store,
      engine,
      provider: new ScriptedProvider(),
      deps: { store, tasks: new TaskLoader(store), endpoints: new EndpointClient(), ...embeddedOnly(parts) },
      parts,
    };
  });
  afterEach(async () => {
    await world?.store.close();
    if (world) rmSync(world.dir, { recursive: true });
  });
  return {
    get now() {
      if (!world) throw new Error('There is no world outside of a test');
      return world;
    },
  };
}

/** Runs an activity as a worker does, with a context that takes heartbeats. */
export function inActivity<T>(
  body: () => Promise<T>,
  cancellationSignal = new AbortController().signal,
  heartbeat: (detail: unknown) => void = () => undefined,
): Promise<T> {
  const context = { info: {}, heartbeat, cancellationSignal };
  return asyncLocalStorage.run(context as unknown as Context, body);
}

/** The `orchestrator` queue's activities, each run as a worker does. */
export function orchestratorActivities(deps: OrchestratorDeps): OrchestratorActivities {
  const activities = createOrchestratorActivities(deps);
  const within = Object.entries(activities).map(
    ([name, activity]: [string, (...given: never[]) => Promise<unknown>]) => [
      name,
      (...given: never[]) => inActivity(() => activity(...given)),
    ],
  );
  return Object.fromEntries(within) as OrchestratorActivities;
}

/** Sample `k` of task `toy-train-TASK` in the first step. */
export function attemptOf(task = 0, k = 0) {
  const name = taskKey(environment.name, 'train', task);
  return { run: RUN, rollout: `train/${RUN}/step-1/${name}/${k}`, attempt: 1, task: name };
}

export function turnInput(turn: number, over: Partial<GenerateInput> = {}): GenerateInput {
  return {
    ...attemptOf(),
    turn,
    policy: { uri: 'file:///policy', version: 3 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 100 },
    maxContextTokens: 10_000,
    limits: { maxTurns: 30, maxDepth: 2, maxSegments: 10 },
    noiseKey: `1/1/toy-train-0/0/${turn}`,
    ...over,
  };
}

export const algorithm: AlgorithmSettings = {
  advantage: 'grpo',
  normaliseByStd: true,
  learningRate: 1e-4,
  warmup: 0,
  schedule: 'linear',
  finalRate: 0,
  epochs: 1,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.999],
  epsilon: 1e-8,
  microBatchTokens: 1024,
};

/** Records how a rollout of the first step ended, with a reward or a failure. */
export async function ended(
  store: Store,
  task: number,
  k: number,
  end: number | OutcomeRecord['failure'],
  turns = 0,
): Promise<string> {
  const { rollout, task: name } = attemptOf(task, k);
  const graded = typeof end === 'number';
  await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
    rollout,
    task: name,
    attempt: 1,
    turns,
    status: graded ? 'graded' : 'failed',
    reward: graded ? end : null,
    passed: graded && end > 0,
    finish: graded ? 'finish-tool' : null,
    failure: graded ? null : end,
    reason: '',
  });
  return rollout;
}

/** Batches of each store, by their rollouts. */
const batches = new WeakMap<Store, Map<string, string>>();

/** Records a manifest of the first step's rollouts of `tasks`. Returns its batch: another one for other rollouts. */
export async function putManifest(store: Store, tasks: readonly string[], samples = 2): Promise<string> {
  const first = `train/${RUN}/step-1`;
  const groups = tasks.map((task) => ({ task, rollouts: rolloutIds(first, [task], samples) }));
  const known = batches.get(store) ?? new Map<string, string>();
  batches.set(store, known);
  const content = JSON.stringify(groups);
  const batch = known.get(content) ?? (known.size === 0 ? first : `${first}-again-${known.size}`);
  known.set(content, batch);
  await store.putOnce<BatchManifest>(keys.manifest(batch, groups.length), { run: RUN, batch, groups });
  return batch;
}

/** The events of a run as `EVENT DETAIL`; only those of `name` if it is given. */
export async function eventLines(store: Store, name?: RolloutEventName): Promise<string[]> {
  const events = await store.events(RUN);
  return events
    .filter(({ event }) => name === undefined || event === name)
    .map(({ event, detail }) => (detail ? `${event} ${detail}` : event));
}

/** The store as a process sees it that is killed when it calls `method` with a key that starts with `prefix`. */
export function dyingAt(store: Store, method: keyof Store, prefix = ''): Store {
  return new Proxy(store, {
    get(target, name) {
      const real = Reflect.get(target, name) as (...given: unknown[]) => unknown;
      return (...given: unknown[]) =>
        name === method && String(given[0]).startsWith(prefix)
          ? Promise.reject(new Error('killed here'))
          : real.apply(target, given);
    },
  });
}
