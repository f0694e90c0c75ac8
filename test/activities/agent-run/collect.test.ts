/** Hunts artifacts that are collected twice, and sandboxes or leases that stay after their use. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { attemptOf, dyingAt, environment, inActivity, useWorld } from '../world.ts';

const world = useWorld();
const attempt = attemptOf();
const sandbox = `${attempt.rollout}#1`;
const input = { ...attempt, sandbox, host: 'here', turn: 1, toolTimeoutSeconds: 7 };

function activities(store = world.now.store) {
  return createAgentRunActivities({
    store,
    tasks: new TaskLoader(store),
    provider: world.now.provider,
    host: 'here',
    sandboxTtlSeconds: 60,
  });
}

beforeEach(async () => {
  await world.now.provider.create({ id: sandbox });
  await world.now.store.acquireLease(
    { id: sandbox, kind: 'sandbox', owner: attempt.rollout, host: 'here', expiresAt: Date.now() + 60_000, detail: '' },
    1,
  );
});

describe('collect', () => {
  const collect = (store = world.now.store) =>
    inActivity(() => activities(store).collect({ ...attempt, sandbox, host: 'here' }));

  it('records the artifact, then ends the sandbox and its lease', async () => {
    const { artifact, bytes } = await collect();
    const diff = Buffer.from(await world.now.store.getObject(artifact));
    expect([diff.toString(), diff.length]).toEqual(['diff of toy-train-0', bytes]);
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });

  it('after a crash between recording and releasing returns the record and releases', async () => {
    const { store, provider } = world.now;
    await expect(collect(dyingAt(store, 'releaseLease'))).rejects.toThrow('killed here');
    expect((await store.leases('sandbox')).length).toBe(1);
    const again = await collect();
    expect(Buffer.from(await store.getObject(again.artifact)).toString()).toBe('diff of toy-train-0');
    expect(provider.log.filter((line) => line.startsWith('connect')).length).toBe(1);
    expect(await store.leases('sandbox')).toEqual([]);
  });

  it('that failed keeps the sandbox, and the next attempt has another number', async () => {
    environment.collectFailures = 1;
    await expect(collect()).rejects.toMatchObject({ nonRetryable: false });
    expect([...world.now.provider.live]).toEqual([sandbox]);
    expect((await collect()).bytes).toBe('diff of toy-train-0'.length);
    expect(environment.collected).toEqual([1, 2]);
  });

  it('reports that a sandbox is lost before anything was collected', async () => {
    await world.now.provider.destroy(sandbox);
    await expect(collect()).rejects.toMatchObject({ type: 'SandboxLost', nonRetryable: true });
  });
});

it('releaseSandbox ends the sandbox and its lease, also when it is repeated', async () => {
  for (let i = 0; i < 2; i++)
    await inActivity(() => activities().releaseSandbox({ ...attempt, sandbox, host: 'here' }));
  expect([...world.now.provider.live]).toEqual([]);
  expect(await world.now.store.leases('sandbox')).toEqual([]);
});

describe('holdSandbox', () => {
  it('renews the lease and the time to live of a sandbox that nobody uses', async () => {
    const before = (await world.now.store.leases('sandbox'))[0]?.expiresAt ?? 0;
    world.now.provider.log.length = 0;
    await inActivity(() => activities().holdSandbox(input));
    expect(world.now.provider.log).toEqual([`connect ${sandbox}`, `renew ${sandbox} 60`, `close ${sandbox}`]);
    const leases = await world.now.store.leases('sandbox');
    expect(leases.map(({ id }) => id)).toEqual([sandbox]);
    expect(leases[0]?.expiresAt).toBeGreaterThanOrEqual(before);
  });

  it('reports that a sandbox is lost, and takes no lease for it', async () => {
    await world.now.provider.destroy(sandbox);
    await world.now.store.releaseLease(sandbox);
    await expect(inActivity(() => activities().holdSandbox(input))).rejects.toMatchObject({ type: 'SandboxLost' });
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });
});
