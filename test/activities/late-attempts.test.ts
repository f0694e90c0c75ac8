/**
 * An execution that the server gave up, and whose worker still lives, ends after a newer one has: it must change no
 * record and no event, and report what is recorded. Why: a worker that is frozen for a minute (a stopped process, a
 * frozen machine) is given up after 15 s, and then continues where it was. Not asserted: the sandbox's own journal and
 * the checkpoint's folder; see test/sandboxes/journal.test.ts and test/trainer/update.test.ts.
 */
import { TaskLoader } from '../../tasks/task-loader.ts';
import { expect, it, vi } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { updateOnce } from '../../activities/update/update.ts';
import type { GenerateResult } from '../../trainer/generate-request.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { call, finishCall, saying, someMetrics, trainingBy } from './scripted-parts.ts';
import {
  algorithm,
  attemptOf,
  dyingAt,
  ended,
  environment,
  inActivity,
  putManifest,
  RUN,
  turnInput,
  useWorld,
} from './world.ts';

const world = useWorld();
const attempt = attemptOf();
const sandbox = `${attempt.rollout}#1`;
const onHost = { ...attempt, sandbox, host: 'here', turn: 1, toolTimeoutSeconds: 7 };

/** Everything that could be read later. */
async function everything() {
  const { store } = world.now;
  return { results: await store.list(''), events: await store.events(RUN), leases: await store.leases('sandbox') };
}

/** Starts `work` twice; the first execution continues only after the second has ended and was recorded. */
async function overtaken<T>(first: () => Promise<T>, letGo: () => void, second: () => Promise<T>) {
  const late = first();
  const newer = await second();
  const before = await everything();
  letGo();
  return { late: await late.catch((error: unknown) => error), newer, before };
}

it('a turn that was sampled late is not the turn', async () => {
  const held = Promise.withResolvers<GenerateResult>();
  const asked = vi.fn();
  world.now.engine.answers = [() => (asked(), held.promise), saying(call('ls'))];
  const generate = () => generateTurn(turnInput(1), world.now.deps, new AbortController().signal);
  const first = generate();
  await expect.poll(() => asked.mock.calls.length).toBe(1);
  const { late, newer, before } = await overtaken(
    () => first,
    () => held.resolve(saying(finishCall)),
    generate,
  );
  expect(late).toEqual(newer);
  expect(await everything()).toEqual(before);
});

function agent(store = world.now.store) {
  return createAgentRunActivities({
    store,
    tasks: new TaskLoader(store),
    provider: world.now.provider,
    host: 'here',
    sandboxTtlSeconds: 60,
  });
}

/** A turn of two calls. The first call of the first execution answers only when it is released, and differently. */
async function aTurnHeldUp() {
  const { provider, store } = world.now;
  const calls = ['a', 'b'].map((command) => ({ name: 'bash', arguments: { command } }));
  await store.putOnce<GenerateRecord>(keys.generate(attempt, 1), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
  });
  await provider.create({ id: sandbox });
  const held = Promise.withResolvers<string>();
  provider.duringExec = () => {
    provider.duringExec = () => Promise.resolve();
    return held.promise;
  };
  const first = inActivity(() => agent().agentRun(onHost));
  await expect.poll(() => provider.calls.length).toBe(1);
  return { first, letGo: () => held.resolve('another answer\n') };
}

it('a tool that answered late has not answered, and nothing comes after it', async () => {
  const { first, letGo } = await aTurnHeldUp();
  const { late, newer, before } = await overtaken(
    () => first,
    letGo,
    () => inActivity(() => agent().agentRun(onHost)),
  );
  expect(late).toEqual(newer);
  expect(await everything()).toEqual(before);
  // The second call of the turn was recorded: it did not run again.
  expect(world.now.provider.calls.map(({ callId }) => callId)).toEqual([
    `${sandbox}/1/0`,
    `${sandbox}/1/0`,
    `${sandbox}/1/1`,
  ]);
});

it('a tool that answered late returns the record, also where the newer execution died before its turn was', async () => {
  const { store } = world.now;
  const { first, letGo } = await aTurnHeldUp();
  await expect(inActivity(() => agent(dyingAt(store, 'putOnce', 'act:')).agentRun(onHost))).rejects.toThrow(
    'killed here',
  );
  letGo();
  expect(await first).toEqual({ line: '2 answers: ran a', ms: 3 });
  expect((await store.get<ActRecord>(keys.act(attempt, 1)))?.messages.map(({ content }) => content)).toEqual([
    'ran a',
    'ran b',
  ]);
});

it('what was collected late is not what is graded, and the sandbox is not ended twice', async () => {
  const { provider } = world.now;
  await provider.create({ id: sandbox });
  const held = Promise.withResolvers<Uint8Array>();
  const collect = vi.spyOn(environment, 'collect').mockImplementationOnce(() => held.promise);
  const { turn: _turn, toolTimeoutSeconds: _timeout, ...input } = onHost;
  const run = () => inActivity(() => agent().collect(input));
  const first = run();
  await expect.poll(() => collect.mock.calls.length).toBe(1);
  const { late, newer, before } = await overtaken(
    () => first,
    () => held.resolve(Buffer.from('another diff')),
    run,
  );
  expect(late).toEqual(newer);
  expect(await everything()).toEqual(before);
  collect.mockRestore();
});

it('a verdict that came late does not count', async () => {
  const held = Promise.withResolvers<Verdict>();
  const grade = vi.spyOn(environment, 'grade').mockImplementationOnce(() => held.promise);
  const artifact = await world.now.store.putObject(Buffer.from('a diff'));
  const reward = createRewardActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    provider: world.now.provider,
    host: 'here',
  });
  const run = () => inActivity(() => reward.computeReward({ ...attempt, artifact, finish: 'finish-tool', turns: 4 }));
  const first = run();
  await expect.poll(() => grade.mock.calls.length).toBe(1);
  const { late, newer, before } = await overtaken(
    () => first,
    () => held.resolve({ code: 'graded', reward: 0, passed: false, reason: 'late' }),
    run,
  );
  expect([late, newer]).toMatchObject([{ reward: 1 }, { reward: 1 }]);
  expect(await everything()).toEqual(before);
  grade.mockRestore();
});

it("an earlier attempt's verdict does not change how the rollout ended", async () => {
  const { store, provider } = world.now;
  const artifact = await store.putObject(Buffer.from('a diff'));
  const reward = createRewardActivities({ store, tasks: new TaskLoader(store), provider, host: 'here' });
  const graded = (n: number) =>
    inActivity(() => reward.computeReward({ ...attempt, attempt: n, artifact, finish: 'finish-tool', turns: n }));
  await graded(2);
  const outcome = await store.get<OutcomeRecord>(keys.outcome(attempt.rollout));
  environment.verdicts = [{ code: 'graded', reward: 0, passed: false, reason: 'late' }];
  await graded(1);
  expect(await store.get(keys.outcome(attempt.rollout))).toEqual(outcome);
  expect(outcome).toMatchObject({ attempt: 2, reward: 1, turns: 2 });
});

it('an update that ended late is not the update, and ends no rollout again', async () => {
  const { store, engine, dir } = world.now;
  for (const [k, value] of [1, 0].entries()) {
    await ended(store, 0, k, value);
    const turn = {
      version: 4,
      appended: [1, 2],
      reset: false,
      sampled: [3, 0],
      logprobs: [-1, -1],
      end: 'stop' as const,
    };
    await store.putOnce<GenerateRecord>(keys.generate(attemptOf(0, k), 1), {
      ...turn,
      parsed: { kind: 'no-call', content: '' },
    });
  }
  await putManifest(store, [attempt.task]);
  const held = Promise.withResolvers<UpdateMetrics>();
  engine.onUpdate = () => {
    engine.onUpdate = async () => someMetrics;
    return held.promise;
  };
  const input = {
    run: RUN,
    runDir: dir,
    step: 1,
    steps: 2,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm,
    policy: { uri: 'file:///policy', version: 4 },
  };
  const update = () => updateOnce(input, store, trainingBy(engine), () => undefined);
  const first = update();
  await expect.poll(() => engine.updates.length).toBe(1);
  const { late, newer, before } = await overtaken(
    () => first,
    () => held.resolve({ ...someMetrics, sha256: 'late', loss: 9 }),
    update,
  );
  expect(late).toEqual(newer);
  expect(await everything()).toEqual(before);
});
