/**
 * Hunts a grader whose sandbox outlives its execution, or has no lease: real sandboxes, whose graders sleep.
 * Why: an execution that was given up would run beside its retry, on a host whose leases do not count it.
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
    await sandbox.exec(callOf(command, { timeoutMs: 60_000 }));
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

/** A running grading, in a sandbox that exists. */
async function sleeping() {
  grader.command = 'sleep 30';
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

describe.each(['CANCELLED', 'TIMED_OUT', 'WORKER_SHUTDOWN'])('an execution that receives %s', (reason) => {
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

  it('makes no other sandbox', async () => {
    const controller = new AbortController();
    const [graded, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    grader.judge = async (provider) => {
      graded.resolve();
      await asked.promise;
      await provider.create(specOf('another'));
      return GRADED;
    };
    const grading = grade(controller.signal).catch((error: unknown) => error);
    await graded.promise;
    controller.abort(new CancelledFailure(reason));
    await grading;
    asked.resolve();
    await grader.ended;
    expect(await left()).toEqual(nothing);
  });
});

it('the retry of one that was given up grades in a sandbox of its own, and alone', async () => {
  const { grading, abort } = await sleeping();
  abort('TIMED_OUT');
  await grading;
  grader.command = 'true';
  grader.judge = async () => ({ ...GRADED, reason: (await bench.provider.list()).join() });
  const verdict = await grade();
  expect(verdict.reason).toBe(id(2));
});

describe('the retry of one whose worker was killed', () => {
  /** The sandboxes of earlier executions, whose process is dead. */
  const leftWhileRetried = async () => {
    grader.command = 'true';
    grader.judge = async () => ({ ...GRADED, reason: (await bench.provider.list()).join() });
    const { reason } = await grade();
    return { reason, ...(await left()) };
  };

  it('ends what that left before it makes a sandbox of its own', async () => {
    const { grading } = await sleeping();
    expect(await leftWhileRetried()).toMatchObject({ reason: id(2), live: [], leases: [] });
    await grading;
  });

  it('ends what that left also if the verdict is recorded', async () => {
    const { grading } = await sleeping();
    await world.now.store.putOnce(`verdict:${attempt.rollout}#1`, { ...GRADED, reason: 'on record' });
    expect(await leftWhileRetried()).toMatchObject({ reason: 'on record', live: [], leases: [] });
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
    expect((await leftWhileRetried()).leases.toSorted()).toEqual(others.map((other) => other.id).toSorted());
    for (const other of others) await world.now.store.releaseLease(other.id);
    abort('TIMED_OUT');
    await grading;
  });
});
