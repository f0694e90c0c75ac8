/** Hunts a second sandbox for the same attempt, and more live sandboxes than the host may hold. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { CancelledFailure } from '@temporalio/common';
import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { createInitActivities } from '../../../activities/init/init.ts';
import { SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { SandboxRef } from '../../../protocol/stages.ts';
import { attemptOf, eventLines, inActivity, useWorld } from '../world.ts';

const world = useWorld();

async function prepare(
  k: number,
  maxLiveSandboxes = 2,
  signal?: AbortSignal,
  heartbeat?: (detail: unknown) => void,
): Promise<SandboxRef> {
  const { store, provider } = world.now;
  const activities = createInitActivities({
    store,
    tasks: new TaskLoader(store),
    provider,
    host: 'here',
    maxLiveSandboxes,
    sandboxTtlSeconds: 60,
  });
  const { sandbox } = await inActivity(() => activities.prepare(attemptOf(0, k)), signal, heartbeat);
  if (sandbox === null) throw new Error('The task has a sandbox');
  return sandbox;
}

it('gives an attempt its one sandbox, however often it is asked', async () => {
  const { rollout } = attemptOf();
  const made = { sandbox: `${rollout}#1`, host: 'here', ttlSeconds: 60 };
  expect([await prepare(0), await prepare(0)]).toEqual([made, made]);
  expect([...world.now.provider.live]).toEqual([made.sandbox]);
  expect((await world.now.store.leases('sandbox')).map(({ id, owner }) => [id, owner])).toEqual([
    [made.sandbox, rollout],
  ]);
  expect(await eventLines(world.now.store)).toEqual(['started']);
});

it('reports in its heartbeats what its image waits for', async () => {
  vi.useFakeTimers({ toFake: ['setInterval'] });
  const heard: unknown[] = [];
  const ready = Promise.withResolvers<void>();
  world.now.provider.prepares = (onLine) => {
    onLine('image: 1 of 3 layers');
    return ready.promise;
  };
  const made = prepare(0, 2, undefined, (detail) => heard.push(detail));
  try {
    await expect
      .poll(() => {
        vi.advanceTimersByTime(3_000);
        return heard;
      })
      .toContain('image: 1 of 3 layers');
  } finally {
    vi.useRealTimers();
    ready.resolve();
  }
  expect((await made).sandbox).toBe(`${attemptOf().rollout}#1`);
});

/** Why: Node keeps a composite signal with a listener forever, and with it everything that its activity referenced. */
it('leaves no listener on the signal of an ended activity', async () => {
  const { signal } = new AbortController();
  await prepare(0, 2, signal);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it('makes no sandbox before it has a lease', async () => {
  await prepare(0, 1);
  const waiting = prepare(1, 1);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(world.now.provider.log).toEqual([`create ${attemptOf(0, 0).rollout}#1`, `close ${attemptOf(0, 0).rollout}#1`]);
  await world.now.store.releaseLease(`${attemptOf(0, 0).rollout}#1`);
  expect((await waiting).sandbox).toBe(`${attemptOf(0, 1).rollout}#1`);
});

/** Why: a lease that nobody releases takes a place on the host until it expires, and other rollouts wait. */
describe('if a sandbox is not used', () => {
  const id = `${attemptOf().rollout}#1`;
  const held = async () => ({
    live: [...world.now.provider.live],
    leases: (await world.now.store.leases('sandbox')).map((lease) => lease.id),
  });
  /** The server's cancellation arrives while the sandbox is being made. */
  async function abortedInCreate(reason: string): Promise<unknown> {
    const controller = new AbortController();
    world.now.provider.afterCreate = () => controller.abort(new CancelledFailure(reason));
    return prepare(0, 1, controller.signal).catch((error: unknown) => error);
  }

  it('because it could not be made, neither lease nor remains stay, and the next try finds room', async () => {
    world.now.provider.afterCreate = () => {
      throw new SandboxUnavailable('half-made');
    };
    await expect(prepare(0, 1)).rejects.toMatchObject({ type: 'SandboxUnavailable', nonRetryable: false });
    expect(await held()).toEqual({ live: [], leases: [] });
    world.now.provider.afterCreate = () => undefined;
    expect((await prepare(1, 1)).sandbox).toBe(`${attemptOf(0, 1).rollout}#1`);
  });

  it('because the workflow cancelled, neither stays', async () => {
    expect(await abortedInCreate('CANCELLED')).toBeInstanceOf(CancelledFailure);
    expect(await held()).toEqual({ live: [], leases: [] });
  });

  it('because the server started another execution, both are left to that one', async () => {
    expect(await abortedInCreate('TIMED_OUT')).toMatchObject({ sandbox: id });
    expect(await held()).toEqual({ live: [id], leases: [id] });
  });

  it('because its worker was frozen while another one made it, it is left to that one', async () => {
    const gone = Promise.withResolvers<void>();
    world.now.provider.afterCreate = () => {
      world.now.provider.afterCreate = () => undefined;
      return gone.promise;
    };
    const late = prepare(0, 1);
    await expect.poll(() => world.now.provider.live.size).toBe(1);
    expect((await prepare(0, 1)).sandbox).toBe(id);
    gone.reject(new SandboxUnavailable('it did not answer in time'));
    await expect(late).rejects.toMatchObject({ type: 'SandboxUnavailable' });
    expect(await held()).toEqual({ live: [id], leases: [id] });
  });

  it('because nobody waits any more, the wait for its image ends, and no sandbox was started', async () => {
    const controller = new AbortController();
    const told = Promise.withResolvers<void>();
    world.now.provider.prepares = (onLine) => {
      onLine('image: the registry limits requests');
      told.resolve();
      return new Promise(() => undefined);
    };
    const waiting = prepare(0, 1, controller.signal);
    await told.promise;
    controller.abort(new CancelledFailure('CANCELLED'));
    await expect(waiting).rejects.toBeInstanceOf(CancelledFailure);
    expect(world.now.provider.log.filter((line) => line.startsWith('create'))).toEqual([]);
    expect(await held()).toEqual({ live: [], leases: [] });
  });

  it('because nobody waits any more, the wait for a lease ends', async () => {
    await prepare(1, 1);
    const controller = new AbortController();
    const waiting = prepare(0, 1, controller.signal);
    controller.abort(new CancelledFailure('CANCELLED'));
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    expect((await held()).live).toEqual([`${attemptOf(0, 1).rollout}#1`]);
  });
});

/**
 * Why: a run that is terminated and started again goes through the same attempts, and reads finished work from the
 * store.
 */
describe('an attempt that acted before', () => {
  const attempt = attemptOf();
  const acted = () => world.now.store.putOnce(keys.answer(attempt, 1, 0), { role: 'tool', name: 'bash', content: '' });

  it('continues in its sandbox', async () => {
    const made = await prepare(0);
    await acted();
    expect(await prepare(0)).toEqual(made);
    expect([...world.now.provider.live]).toEqual([made.sandbox]);
  });

  it('is lost with it, and takes no place on the host', async () => {
    await acted();
    await expect(prepare(0)).rejects.toMatchObject({ type: 'SandboxLost', nonRetryable: true });
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });

  it('keeps its sandbox if that is only unreachable for now', async () => {
    const made = await prepare(0);
    await acted();
    const { provider, store } = world.now;
    const connect = provider.connect.bind(provider);
    provider.connect = () => Promise.reject(new SandboxUnavailable('the daemon is busy'));
    await expect(prepare(0)).rejects.toMatchObject({ type: 'SandboxUnavailable', nonRetryable: false });
    expect([...provider.live]).toEqual([made.sandbox]);
    expect((await store.leases('sandbox')).map(({ id }) => id)).toEqual([made.sandbox]);
    provider.connect = connect;
    expect(await prepare(0)).toEqual(made);
  });

  it('needs none when its work was collected', async () => {
    await acted();
    await world.now.store.putOnce(keys.collect(attempt), { artifact: 'sha256:00', bytes: 0 });
    expect((await prepare(0)).sandbox).toBe(`${attempt.rollout}#1`);
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });
});
