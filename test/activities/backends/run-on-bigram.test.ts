/**
 * Hunts a run whose policy is held by a user's backend and that samples, trains or continues otherwise than one on the
 * embedded engine: two steps over the example in examples/backends. Not asserted: workflows, which see URIs alone.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { WorkerBackends } from '../../../activities/backends/defined-backend.ts';
import { embeddedBackend } from '../../../activities/backends/embedded-backend.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import { resolvePolicy } from '../../../activities/orchestrator/sweep/resolve-policy.ts';
import { updateOnce } from '../../../activities/update/update.ts';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import type { OpenedRun } from '../../../protocol/activities.ts';
import type { PolicyRef } from '../../../protocol/policy.ts';
import type { GenerateRecord, RunRecord, UpdateEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { Store } from '../../../store/store.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { attemptOf, dyingAt, ended, orchestratorActivities, putManifest, RUN, turnInput, useWorld } from '../world.ts';

const world = useWorld();
const starter = join(packageRoot, 'examples', 'starter');
const states = () => join(world.now.dir, 'states');
const base = () => `bigram:${states()}?tokenizer=${starter}`;
const signal = new AbortController().signal;

const settings = (over: object = {}) => ({
  run: RUN,
  dir: join(world.now.dir, 'runs'),
  modules: [join(packageRoot, 'examples', 'backends', 'bigram.ts')],
  policy: { backend: 'bigram', base: base() },
  task: { name: 'toy', train: 10 },
  batch: { tasks: 2, samples: 2 },
  ...over,
});

function parts() {
  const { store, deps } = world.now;
  const describePolicy = () => Promise.reject(new Error('only folders are described so'));
  const temporal = { address: '', namespace: '', ui: '' };
  const orchestrator = orchestratorActivities({ store, tasks: new TaskLoader(store), temporal, describePolicy });
  const backends = new WorkerBackends(embeddedBackend(world.now.parts), store, loadTokenizer);
  return { store, deps: { ...deps, backends, tasks: new TaskLoader(store) }, orchestrator, backends };
}

type Parts = ReturnType<typeof parts>;

/** Rolls out two groups of two, which vary in reward; returns their batch. */
async function rollOut({ store, deps }: Parts, { config }: OpenedRun, policy: PolicyRef, tasks: readonly number[]) {
  const { catalog } = config.opened;
  const names = tasks.map((task) => attemptOf(task).task);
  for (const task of tasks)
    for (const k of [0, 1]) {
      const attempt = attemptOf(task, k);
      const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 12 };
      const input = { ...attempt, catalog, policy, sampling, noiseKey: attempt.rollout };
      await generateTurn(turnInput(1, input), deps, signal);
      await ended(store, task, k, k, 1);
    }
  return putManifest(store, names);
}

const inputOf = ({ config, runDir }: OpenedRun, step: number, policy: PolicyRef, batch: string) => ({
  run: RUN,
  runDir,
  step,
  steps: 2,
  batches: [batch],
  samples: 2,
  algorithm: config.algorithm,
  policy,
});

describe('a run on a backend of a module', () => {
  it('samples and trains two steps, from saved state to saved state, and names them by URIs', async () => {
    const own = parts();
    const { store, orchestrator, backends } = own;
    const opened = await orchestrator.openRun(settings(), RUN);
    expect(opened.policy).toEqual({ uri: base(), version: 0 });
    expect((await store.get<RunRecord>(keys.run(RUN)))?.policy).toEqual({
      base: base(),
      parameters: 512 ** 2,
      vocabulary: 512,
    });
    let { policy } = opened;
    for (const [step, tasks] of [
      [1, [0, 1]],
      [2, [2, 3]],
    ] as const) {
      const batch = await rollOut(own, opened, policy, tasks);
      const turn = await store.get<GenerateRecord>(keys.generate(attemptOf(tasks[0]), 1));
      expect(turn?.digest).toMatch(step === 1 ? /^zeros$/ : /^[0-9a-f]{64}$/);
      const made = await updateOnce(inputOf(opened, step, policy, batch), store, backends, () => undefined);
      expect(made.policy).toEqual({
        uri: expect.stringMatching(`^bigram:.*#r/step-${step}/[0-9a-f]{12}$`) as string,
        version: step,
      });
      expect(made.sha256).toMatch(/^[0-9a-f]{64}$/);
      expect(made.record).toMatchObject({ step, valid: 4, groups: 2, policyVersion: step, clipFraction: 0 });
      expect(made.record.gradNorm).toBeGreaterThan(0);
      expect(made.record.logprobDrift.maxAbs).toBeLessThan(1e-6);
      const record = { ...made.record, seconds: { rollouts: 1, update: 1, total: 2 } } as never;
      const { runDir } = opened;
      await orchestrator.recordStep({ run: RUN, runDir, record, policy: made.policy, sha256: made.sha256, keep: true });
      ({ policy } = made);
    }
    // An eval samples a state by its URI, if it names the module too.
    const { modules } = (await store.get<RunRecord>(keys.run(RUN))) ?? {};
    const asked = { name: 'state', policy: policy.uri };
    const found = await resolvePolicy(asked, join(world.now.dir, 'eval'), store, modules);
    expect(found).toMatchObject({
      ref: { uri: policy.uri, version: 0 },
      fingerprint: expect.stringMatching(/^\w{64}$/) as string,
    });
    expect(await resolvePolicy({ name: 'last', policy: `latest:${RUN}` }, '', store, modules)).toMatchObject({
      ref: { uri: policy.uri, version: 2 },
      from: { run: RUN, step: 2 },
    });
    await expect(resolvePolicy(asked, '', store)).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policies.state',
    });
  });

  it('that dies after it saved trains again from the saved state before, under another name; one state is recorded', async () => {
    const own = parts();
    const { store, orchestrator, backends } = own;
    const opened = await orchestrator.openRun(settings(), RUN);
    const batch = await rollOut(own, opened, opened.policy, [0, 1]);
    const input = inputOf(opened, 1, opened.policy, batch);
    const update = (over: Store) => updateOnce(input, over, backends, () => undefined);
    await expect(update(dyingAt(store, 'putOnce', 'update:'))).rejects.toThrow('killed here');
    const made = await update(store);
    expect(await update(store)).toEqual(made);
    expect(readdirSync(join(states(), 'r', 'step-1'))).toHaveLength(2);
    expect((await store.get<UpdateEntry>(keys.update(RUN, 1)))?.policy).toEqual(made.policy);
  });

  it('whose groups teach nothing keeps its policy under the next version', async () => {
    const own = parts();
    const { store, orchestrator, backends } = own;
    const opened = await orchestrator.openRun(settings(), RUN);
    for (const k of [0, 1]) await ended(store, 0, k, 1);
    const batch = await putManifest(store, [attemptOf(0).task]);
    const { policy, sha256 } = await updateOnce(
      inputOf(opened, 1, opened.policy, batch),
      store,
      backends,
      () => undefined,
    );
    expect([policy, sha256]).toEqual([{ uri: base(), version: 1 }, null]);
  });
});

describe('before a run starts, a setting is refused by its name', () => {
  it.each<[string, object, RegExp]>([
    [
      'policy.backend',
      { policy: { backend: 'bigrams', base: 'bigram:/s' } },
      /one of embedded, (?:\w+, )*bigram.*bigram/,
    ],
    ['policy.backend', { policy: { base: 'bigram:/s?tokenizer=/t' } }, /give bigram, which holds bigram:/],
    ['policy.base', { policy: { backend: 'bigram', base: '/models/x' } }, /give a URI with bigram:/],
    [
      'policy.base',
      { policy: { backend: 'bigram', base: 'bigram:/s' } },
      /a policy that backend bigram has \(.*no tokenizer/,
    ],
    ['policy.base', { policy: { base: 's3://bucket/x' } }, /no backend has the scheme s3/],
    [
      'policy.lora',
      { policy: { backend: 'bigram', base: 'bigram:/s', lora: {} } },
      /backend bigram does not support it/,
    ],
    ['algorithm.entropyCoefficient', { algorithm: { entropyCoefficient: 0.1 } }, /give 0/],
    ['algorithm.critic', { algorithm: { advantage: 'gae', critic: {} } }, /such as grpo/],
    ['algorithm.gradientCheckpointing', { algorithm: { gradientCheckpointing: true } }, /leave it out/],
    ['training.shards', { training: { shards: 2 } }, /leave it out/],
    ['sampling.topK', { sampling: { topK: 5 } }, /does not have topK/],
    ['agent.maxContextTokens', { agent: { maxContextTokens: 200_000 } }, /at most 100000/],
  ])('%s', async (field, over, remedy) => {
    mkdirSync(states());
    await expect(parts().orchestrator.openRun(settings(over), RUN)).rejects.toMatchObject({
      type: 'UserInputError',
      message: expect.stringMatching(new RegExp(`^${field}: .*${remedy.source}`)) as string,
    });
  });
});
