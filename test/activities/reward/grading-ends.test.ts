/**
 * Hunts a grading that starts again because its worker was lost, and a grader whose sandbox outlives its use or has no
 * lease: real sandboxes, whose graders take their time.
 * Why: tests of half an hour would start again with each lost worker, and an execution that was given up would run
 * beside its retry. A worker that is killed as a process is in graded-in-place.test.ts.
 * Not asserted: how Temporal notifies an activity of its end; see test/workflows/rollout/cancelled-grading.test.ts.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { CancelledFailure } from '@temporalio/activity';
import { afterEach, describe, expect, it } from 'vitest';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import type { SandboxProvider, SandboxSpec } from '../../../sandboxes/sandbox.ts';
import { sweepOnce } from '../../../sandboxes/sweep.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { callOf, eventually, openBench, specOf } from '../../sandboxes/harness.ts';
import { ScriptedEnvironment } from '../scripted-parts.ts';
import { attemptOf, inActivity, useWorld } from '../world.ts';

const GRADED: Verdict = { code: 'graded', reward: 1, passed: true, reason: '' };
const bench = await openBench();
const world = useWorld();

/** A grader that never ends its sandboxes, and blames the work for every failure of theirs. */
class Careless extends ScriptedEnvironment {
  command = 'true';
  output = '';
  spec: Partial<SandboxSpec> = {};
  /** Called after its command has run. */
  judge: (provider: SandboxProvider) => Promise<Verdict> = () => Promise.resolve(GRADED);
  ended = Promise.resolve();

  override grade(_task: string, _artifact: Uint8Array, provider: SandboxProvider, id: string): Promise<Verdict> {
    const graded = this.inSandbox(provider, id).catch((): Verdict => ({
      code: 'graded',
      reward: 0,
      passed: false,
      reason: 'its sandbox failed',
    }));
    this.ended = graded.then(() => undefined);
    return graded;
  }

  private async inSandbox(provider: SandboxProvider, id: string): Promise<Verdict> {
    const { command } = this;
    const sandbox = await provider.create(specOf(id, this.spec));
    this.output = (await sandbox.exec(callOf(command, { callId: `${id}/run`, timeoutMs: 60_000 }))).output;
    return this.judge(provider);
  }
}

const grader = new Careless('careless');
defineEnvironment(grader);
const attempt = { ...attemptOf(), task: 'careless-train-0' };
const id = (n: number) => `${attempt.rollout}#1/grade-${n}`;

afterEach(async () => {
  await grader.ended;
  Object.assign(grader, { command: 'true', spec: {}, judge: () => Promise.resolve(GRADED) });
});

async function grade(signal?: AbortSignal) {
  const artifact = await world.now.store.putObject(Buffer.from('a diff'));
  const reward = createRewardActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    provider: bench.provider,
    host: 'here',
  });
  return inActivity(() => reward.computeReward({ ...attempt, artifact, finish: 'finish-tool', turns: 1 }), signal);
}

const leases = () => world.now.store.leases('grader-sandbox');
const left = async () => ({
  live: await bench.provider.list(),
  leases: (await leases()).map((lease) => lease.id),
  verdicts: await world.now.store.list('verdict:'),
});
const nothing = { live: [], leases: [], verdicts: [] };

/** Runs until the file `go` is there, and says how often it was started. */
const WAITS = 'echo ran >> runs; until [ -e go ]; do sleep 0.02; done; cat runs';

async function letGo() {
  const sandbox = await bench.provider.connect(id(1));
  await sandbox.write({ callId: 'go', path: 'go', content: new Uint8Array(), note: '' });
  sandbox.close();
}

/** As the sweeper would, when its lease has run out. */
async function sweep() {
  await bench.provider.destroy(id(1));
  await world.now.store.releaseLease(id(1));
}

/** A running grading, in a sandbox that exists. */
async function sleeping(command = 'sleep 30') {
  grader.command = command;
  const controller = new AbortController();
  const grading = grade(controller.signal).catch((error: unknown) => error);
  await eventually(
    'the sandbox answers',
    async () =>
      await bench.provider.connect(id(1)).then(
        (sandbox) => (sandbox.close(), true),
        () => undefined,
      ),
  );
  return { grading, abort: (reason: string) => controller.abort(new CancelledFailure(reason)) };
}

describe('a sandbox that grades', () => {
  it("is leased under its rollout for as long as it lives, and takes no agent's place", async () => {
    const { grading, abort } = await sleeping();
    expect(await leases()).toMatchObject([{ id: id(1), owner: attempt.rollout, host: 'here' }]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
    abort('CANCELLED');
    await grading;
  });

  it('is ended with its execution, also where the grader forgets it', async () => {
    expect(await grade()).toEqual(GRADED);
    expect({ ...(await left()), verdicts: [] }).toEqual(nothing);
  });

  it('is ended with its execution, also where the grader fails', async () => {
    grader.judge = () => Promise.resolve({ code: 'grader-failed', reason: 'it broke' });
    await expect(grade()).rejects.toMatchObject({ type: 'GraderFailed' });
    expect(await left()).toEqual(nothing);
  });

  it('lives on with its lease for as long as it is graded in, however short their time to live', async () => {
    grader.spec = { ttlSeconds: 1 };
    grader.command = 'sleep 3; echo done';
    grader.judge = async () => ({
      ...GRADED,
      reason: (await leases()).some(({ expiresAt }) => expiresAt > Date.now()) ? 'leased' : 'not leased',
    });
    expect(await grade()).toEqual({ ...GRADED, reason: 'leased' });
  });

  it('is swept when its owner has ended and its worker was killed', async () => {
    const { grading } = await sleeping();
    const ownerLives = (owner: string) => Promise.resolve(owner !== attempt.rollout);
    expect(await sweepOnce({ store: world.now.store, provider: bench.provider, host: 'here', ownerLives })).toEqual([
      id(1),
    ]);
    expect(await bench.provider.list()).toEqual([]);
    await grading;
  });
});

describe.each(['CANCELLED', 'NOT_FOUND'])('an execution that receives %s', (reason) => {
  it('ends at once with its sandbox and its lease, and its grader’s result is not a verdict', async () => {
    const { grading, abort } = await sleeping();
    abort(reason);
    expect(await grading).toMatchObject({ name: 'CancelledFailure', message: reason });
    await grader.ended;
    expect(await left()).toEqual(nothing);
  });

  it('leaves nothing of a sandbox that is still being made', async () => {
    grader.spec = { setup: 'sleep 60' };
    const controller = new AbortController();
    const grading = grade(controller.signal).catch((error: unknown) => error);
    await eventually('the set-up runs', async () => ((await bench.provider.list()).length > 0 ? true : undefined));
    controller.abort(new CancelledFailure(reason));
    expect(await grading).toMatchObject({ name: 'CancelledFailure' });
    await grader.ended;
    expect(await left()).toEqual(nothing);
  });
});

describe.each(['TIMED_OUT', 'WORKER_SHUTDOWN'])('an execution that receives %s', (reason) => {
  it('ends at once, leaves its sandbox to the retry, and its grader’s result is not a verdict', async () => {
    const { grading, abort } = await sleeping();
    abort(reason);
    expect(await grading).toMatchObject({ name: 'CancelledFailure', message: reason });
    expect(await left()).toEqual({ live: [id(1)], leases: [id(1)], verdicts: [] });
    await sweep();
    await grader.ended;
    expect(await left()).toEqual(nothing);
  });

  it('is followed by one that attaches to the call under way: it runs once', async () => {
    const { grading, abort } = await sleeping(WAITS);
    abort(reason);
    await grading;
    const retry = grade();
    await letGo();
    expect(await retry).toEqual(GRADED);
    expect(grader.output).toBe('ran\n');
    expect({ ...(await left()), verdicts: [] }).toEqual(nothing);
  });

  it('leaves a sandbox that is still being made to the retry, which makes no other', async () => {
    grader.spec = { setup: 'echo made >> runs; until [ -e go ]; do sleep 0.02; done' };
    const controller = new AbortController();
    const grading = grade(controller.signal).catch((error: unknown) => error);
    await eventually('the set-up runs', async () =>
      bench.provider.connect(id(1)).then(
        async (sandbox) => ((await sandbox.read('runs', 100)).kind === 'file' ? (sandbox.close(), true) : undefined),
        () => undefined,
      ),
    );
    controller.abort(new CancelledFailure(reason));
    await grading;
    grader.command = 'cat runs';
    const retry = grade();
    await letGo();
    expect(await retry).toEqual(GRADED);
    expect(grader.output).toBe('made\n');
  });
});

it.each(['CANCELLED', 'TIMED_OUT', 'WORKER_SHUTDOWN'])('after %s no other sandbox is made', async (reason) => {
  const [graded, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  grader.judge = async (provider) => {
    graded.resolve();
    await asked.promise;
    await provider.create(specOf('another'));
    return GRADED;
  };
  const controller = new AbortController();
  const grading = grade(controller.signal).catch((error: unknown) => error);
  await graded.promise;
  controller.abort(new CancelledFailure(reason));
  await grading;
  asked.resolve();
  await grader.ended;
  expect((await left()).leases).toEqual(reason === 'CANCELLED' ? [] : [id(1)]);
  await sweep();
  expect(await left()).toEqual(nothing);
});

describe('the retry of one whose worker was killed', () => {
  it('attaches to the call under way, and ends the sandbox with its verdict; both get the same one', async () => {
    const { grading } = await sleeping(WAITS);
    const retry = grade();
    await expect.poll(() => world.now.store.begun(`reward:${attempt.rollout}#1`)).toBe(2);
    await letGo();
    expect(await retry).toEqual(GRADED);
    await grading;
    expect(grader.output).toBe('ran\n');
    expect((await world.now.store.list('verdict:')).map(({ value }) => value)).toEqual([GRADED]);
    expect({ ...(await left()), verdicts: [] }).toEqual(nothing);
  });

  it('alone makes and ends sandboxes: the one that was frozen leaves them to it', async () => {
    const [graded, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    grader.judge = async (provider) => {
      graded.resolve();
      await go.promise;
      await provider.destroy(id(1));
      return { ...GRADED, reward: 0, reason: 'frozen' };
    };
    const frozen = grade().catch((error: unknown) => error);
    await graded.promise;
    grader.judge = async () => {
      go.resolve();
      const late = await frozen;
      return { ...GRADED, reason: `${(late as Error).message}; ${(await bench.provider.list()).join()}` };
    };
    const { reason } = await grade();
    expect(reason).toBe(`another execution has started to grade this; ${id(1)}`);
    expect(await world.now.store.list('verdict:')).toMatchObject([{ value: { reward: 1 } }]);
  });

  it('has other sandboxes after a failure, and no verdict comes from those of before', async () => {
    const [graded, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    grader.judge = async () => {
      graded.resolve();
      await go.promise;
      return { ...GRADED, reward: 0, reason: 'frozen' };
    };
    const frozen = grade().catch((error: unknown) => error);
    await graded.promise;
    grader.judge = () => Promise.resolve({ code: 'grader-failed', reason: 'it broke' });
    await expect(grade()).rejects.toMatchObject({ type: 'GraderFailed', message: 'it broke' });
    expect(await left()).toEqual(nothing);
    go.resolve();
    expect(await frozen).toMatchObject({ type: 'GraderFailed' });
    grader.judge = async () => ({ ...GRADED, reason: (await bench.provider.list()).join() });
    expect(await grade()).toMatchObject({ reason: id(2) });
  });

  it('ends what that left also if the verdict is recorded', async () => {
    const { grading } = await sleeping();
    await world.now.store.putOnce(`verdict:${attempt.rollout}#1`, { ...GRADED, reason: 'on record' });
    expect(await grade()).toMatchObject({ reason: 'on record' });
    expect({ ...(await left()), verdicts: [] }).toEqual(nothing);
    await grading;
  });

  it("leaves other rollouts' sandboxes, and those of other hosts", async () => {
    const { grading, abort } = await sleeping();
    const others = [
      { id: 'another#1/grade-1', host: 'here' },
      { id: `${attempt.rollout}#1/grade-1-again`, host: 'elsewhere' },
    ];
    for (const other of others)
      await world.now.store.acquireLease(
        { ...other, kind: 'grader-sandbox', owner: 'x', expiresAt: Date.now() + 60_000, detail: '' },
        9,
      );
    abort('CANCELLED');
    await grading;
    expect((await leases()).map((lease) => lease.id).toSorted()).toEqual(others.map((other) => other.id).toSorted());
    for (const other of others) await world.now.store.releaseLease(other.id);
  });
});
