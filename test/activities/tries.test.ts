/**
 * Hunts a rollout that is masked because its workers were killed, and a failure that is retried forever: what counts as
 * a failure, what as a lost worker, and what as neither. Contexts are made by hand; a real server, and processes that
 * are killed, are in test/workflows/failures/killed-workers.test.ts.
 */
import { CancelledFailure } from '@temporalio/common';
import { expect, it, vi } from 'vitest';
import { patienceOf, whilePatient } from '../../activities/generate/endpoint-patience.ts';
import { patienceLeft } from '../../activities/own-patience.ts';
import { OwnClock } from '../../activities/own-time.ts';
import { keys } from '../../protocol/record-keys.ts';
import { checkWorkersLost, tried } from '../../activities/tries.ts';
import type { Store } from '../../store/store.ts';
import type { Endpoint } from '../../protocol/endpoint.ts';
import { LOST_WORKERS, RETRIES, TRIES_SPENT } from '../../protocol/failure-policy.ts';
import { useWorld } from './world.ts';
import { execution, type Execution, info } from './executions.ts';

const world = useWorld();
const place = 'reward';
const limits = () => ({ store: world.now.store, place }) as const;

const patience = {
  failure: 'endpoint-unavailable',
  ms: 100_000,
  message: (why: string) => `within patienceSeconds (${why})`,
} as const;
const endpoint: Endpoint = {
  baseUrl: 'http://127.0.0.1:9/v1',
  model: 'm',
  mode: 'chat',
  timeoutSeconds: 5,
  maxConcurrent: 1,
  maxTries: 1,
  patienceSeconds: 8,
  maxTokensField: 'max_tokens',
};
const failing = () => Promise.reject(Object.assign(new Error('the grader died'), { name: 'GraderFailed' }));
const failed = (attempt: number, given: Execution = {}) =>
  execution(attempt, () => tried(limits(), failing), given).catch((error: unknown) => error);
const begun = (attempt: number, given: Execution = {}) =>
  execution(attempt, () => checkWorkersLost(world.now.store), given);

it('a failure is final when the limit is reached, and reports that its attempts are used up', async () => {
  for (let attempt = 1; attempt < RETRIES.reward.attempts; attempt += 1)
    expect(await failed(attempt)).toMatchObject({ type: 'GraderFailed', nonRetryable: false });
  expect(await failed(RETRIES.reward.attempts)).toMatchObject({
    type: 'GraderFailed',
    message: expect.stringMatching(/^the grader died \(\S*test\/activities\/tries\.test\.ts:\d+\)$/) as string,
    nonRetryable: true,
    details: [TRIES_SPENT],
  });
});

it('lost workers do not count as failures, however many they are', async () => {
  // Attempts 1 to 30 recorded nothing: their workers were killed.
  for (let attempt = 31; attempt < 30 + RETRIES.reward.attempts; attempt += 1)
    expect(await failed(attempt)).toMatchObject({ nonRetryable: false });
  expect(await failed(30 + RETRIES.reward.attempts)).toMatchObject({ nonRetryable: true });
});

it('work after too many lost workers is quarantined, and failures do not count as lost workers', async () => {
  await failed(1);
  await failed(2);
  await expect(begun(LOST_WORKERS + 2)).resolves.toBeUndefined();
  const refused = await execution(LOST_WORKERS + 3, () =>
    tried(limits(), () => checkWorkersLost(world.now.store)),
  ).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    type: 'WorkersLost',
    nonRetryable: true,
    message: `computeReward of train/r/step-1/t/0: ${LOST_WORKERS} workers in a row ended, froze or were silent for 15 s while they ran it`,
  });
});

it('a failure that is reported twice counts once', async () => {
  for (let times = 0; times < 20; times += 1) expect(await failed(3)).toMatchObject({ nonRetryable: false });
});

it('another scheduling of the same activity, by a rollout that was resumed, has its own limits', async () => {
  for (let attempt = 1; attempt <= RETRIES.reward.attempts; attempt += 1) await failed(attempt);
  expect(await failed(RETRIES.reward.attempts, { over: { activityId: '8' } })).toMatchObject({ nonRetryable: false });
  await expect(
    begun(LOST_WORKERS + 1, {
      over: { workflowExecution: { workflowId: 'train/r/step-1/t/0', runId: 'another' }, attempt: 1 },
    }),
  ).resolves.toBeUndefined();
});

it.each([['CANCELLED'], ['WORKER_SHUTDOWN']])(
  'an execution that ends by %s is neither a failure nor a lost worker',
  async (reason) => {
    for (let attempt = 1; attempt <= LOST_WORKERS + 1; attempt += 1) {
      const control = new AbortController();
      const work = execution(
        attempt,
        () =>
          tried(limits(), async (signal) => {
            control.abort(new CancelledFailure(reason));
            // The process may end here: the end is recorded already.
            await expect.poll(async () => (await world.now.store.list(keys.tries(info(attempt)))).length).toBe(attempt);
            signal.throwIfAborted();
          }),
        { signal: control.signal },
      );
      await expect(work).rejects.toThrow(reason);
    }
    await expect(begun(LOST_WORKERS + 2)).resolves.toBeUndefined();
    expect(await failed(LOST_WORKERS + 2)).toMatchObject({ nonRetryable: false });
  },
);

it('an execution that the server had given up when it failed is a lost worker', async () => {
  for (let attempt = 1; attempt <= 20; attempt += 1) {
    const control = new AbortController();
    const late = execution(
      attempt,
      () =>
        tried(limits(), async () => {
          control.abort(new CancelledFailure('TIMED_OUT'));
          return failing();
        }),
      { signal: control.signal },
    );
    await expect(late).rejects.toMatchObject({ type: 'GraderFailed', nonRetryable: false });
  }
  expect(await world.now.store.list('tries:')).toEqual([]);
});

it('a store that cannot be written still limits attempts, and its own failure, which masks nothing, replaces one that it cannot count', async () => {
  const broken = () => Promise.reject(Object.assign(new Error('no room'), { name: 'StoreFull' }));
  const store = { putOnce: broken, list: broken } as unknown as Store;
  const thrown = (attempt: number, work: () => Promise<never>) =>
    execution(attempt, () => tried({ store, place }, work)).catch((error: unknown) => error);
  for (const work of [broken, failing]) {
    expect(await thrown(RETRIES.reward.attempts - 1, work)).toMatchObject({ type: 'StoreFull', nonRetryable: false });
    // All other attempts may have been lost workers.
    expect(await thrown(RETRIES.reward.attempts, work)).toMatchObject({
      type: 'StoreFull',
      nonRetryable: true,
      details: [TRIES_SPENT],
    });
  }
});

it('endless retries end for a full disk as a place’s failures do, and not as lost workers; recorded failures do not count toward that', async () => {
  const thrown = (attempt: number, name: string) =>
    execution(attempt, () =>
      tried({ ...limits(), patience }, () => Promise.reject(Object.assign(new Error(name), { name }))),
    ).catch((error: unknown) => error);
  for (let attempt = 1; attempt <= 20; attempt += 1)
    expect(await thrown(attempt, 'EndpointUnavailable')).toMatchObject({ nonRetryable: false });
  const last = 20 + RETRIES.reward.attempts;
  for (let attempt = 21; attempt < last; attempt += 1)
    expect(await thrown(attempt, 'StoreFull')).toMatchObject({ nonRetryable: false });
  expect(await thrown(last, 'StoreFull')).toMatchObject({
    type: 'StoreFull',
    nonRetryable: true,
    details: [TRIES_SPENT],
  });
});

it('endless retries end also if nothing can be recorded', async () => {
  const store = {
    putOnce: () => Promise.reject(Object.assign(new Error('no room'), { name: 'StoreFull' })),
    list: () => Promise.resolve([]),
  } as unknown as Store;
  const ended = await execution(RETRIES.reward.attempts, () => tried({ store, place, patience }, failing)).catch(
    (error: unknown) => error,
  );
  expect(ended).toMatchObject({ type: 'StoreFull', nonRetryable: true });
});

it('patience counts attempts that found the server down, and the pauses between two of them; nothing else', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const thrown = (attempt: number, name: string, [from, to]: readonly [number, number]) => {
    vi.setSystemTime(from * 1000);
    const work = () => {
      vi.setSystemTime(to * 1000);
      return Promise.reject(Object.assign(new Error('refused'), { name }));
    };
    return execution(attempt, () => tried({ ...limits(), patience }, work)).catch((error: unknown) => error);
  };
  const down = (attempt: number, ...times: readonly [number, number]) => thrown(attempt, 'EndpointUnavailable', times);
  expect(await down(1, 0, 10)).toMatchObject({ nonRetryable: false });
  expect(await down(2, 30, 40)).toMatchObject({ nonRetryable: false });
  // The third one's worker was lost, and the disk was full in the fifth one.
  expect(await down(4, 500, 510)).toMatchObject({ nonRetryable: false });
  expect(await thrown(5, 'StoreFull', [510, 990])).toMatchObject({ nonRetryable: false });
  expect(await down(6, 990, 1000)).toMatchObject({ nonRetryable: false });
  const last = await down(7, 1030, 1040);
  expect(await world.now.store.list(keys.tries(info(7)))).toMatchObject(
    [10, 40, 50, 60, 100].map((seconds) => ({ value: { spentMs: seconds * 1000 } })),
  );
  vi.useRealTimers();
  expect(last).toMatchObject({
    type: 'EndpointUnavailable',
    message: expect.stringMatching(/^within patienceSeconds \(refused/) as string,
    nonRetryable: true,
    details: [TRIES_SPENT],
  });
});

it('an attempt has the remaining patience, and may report that before the server ends it', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(0);
  const left = (attempt: number) => execution(attempt, () => patienceLeft(patience, world.now.store, new OwnClock()));
  expect(await left(1)).toBe(100_000);
  const down = () => {
    vi.setSystemTime(30_000);
    return Promise.reject(Object.assign(new Error('refused'), { name: 'EndpointUnavailable' }));
  };
  await execution(1, () => tried({ ...limits(), patience }, down)).catch(() => undefined);
  vi.setSystemTime(50_000);
  expect(await left(2)).toBe(50_000);
  // The second one's worker was lost.
  expect(await left(3)).toBe(70_000);
  const over = { startToCloseTimeoutMs: 90_000 };
  expect(await execution(1, () => patienceLeft(patience, world.now.store, new OwnClock()), { over })).toBe(60_000);
  vi.useRealTimers();
});

it('failures with a patience do not count toward other failures, and do not limit them', async () => {
  const thrown = (attempt: number, name: string) =>
    execution(attempt, () =>
      tried({ ...limits(), patience }, () => Promise.reject(Object.assign(new Error(name), { name }))),
    ).catch((error: unknown) => error);
  for (let attempt = 1; attempt <= 20; attempt += 1) await thrown(attempt, 'EndpointUnavailable');
  const last = 20 + RETRIES.reward.attempts;
  for (let attempt = 21; attempt < last; attempt += 1)
    expect(await thrown(attempt, 'TypeError')).toMatchObject({ nonRetryable: false });
  expect(await thrown(last, 'TypeError')).toMatchObject({ type: 'TypeError', nonRetryable: true });
});

it('a call that hangs ends with the patience, and is the last', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  const ask = (signal: AbortSignal) =>
    whilePatient(endpoint, world.now.store, signal, () => new Promise<never>(() => undefined));
  let ended: unknown;
  const over = { scheduledTimestampMs: Date.now() };
  const policy = { endpoint, version: 0 };
  execution(1, () => tried({ ...limits(), ...patienceOf(policy) }, ask), { over }).catch(
    (error: unknown) => (ended = error),
  );
  await vi.advanceTimersByTimeAsync(8100);
  vi.useRealTimers();
  await expect.poll(() => ended).toBeDefined();
  expect(ended).toMatchObject({
    type: 'EndpointUnavailable',
    nonRetryable: true,
    message: expect.stringContaining('patienceSeconds, which is 8 s (the last call had no answer yet') as string,
  });
});

it('patience that ends in a pause between two tries names the last failure', async () => {
  const waiting = (_: AbortSignal, onFailure: (error: Error) => void) => {
    onFailure(new Error('HTTP 500: broken'));
    onFailure(new Error('HTTP 429: slow down'));
    return new Promise<never>(() => undefined);
  };
  const hasty = { ...endpoint, patienceSeconds: 0.2 };
  const ask = (signal: AbortSignal) => whilePatient(hasty, world.now.store, signal, waiting);
  const patient = { ...limits(), ...patienceOf({ endpoint: hasty, version: 0 }) };
  await expect(execution(1, () => tried(patient, ask))).rejects.toThrow(
    'patienceSeconds, which is 0.2 s (the last failure: HTTP 429: slow down)',
  );
});

it('if patience cannot be read, it counts from the first attempt on', async () => {
  const broken = () => Promise.reject(new TypeError('no such table'));
  const store = { putOnce: broken, list: broken } as unknown as Store;
  const down = () => Promise.reject(Object.assign(new Error('refused'), { name: 'EndpointUnavailable' }));
  const ended = (agoMs: number) =>
    execution(20, () => tried({ store, place, patience }, down), {
      over: { scheduledTimestampMs: Date.now() - agoMs },
    }).catch((error: unknown) => error);
  expect(await ended(60_000)).toMatchObject({ type: 'EndpointUnavailable', nonRetryable: false });
  expect(await ended(100_000)).toMatchObject({ type: 'EndpointUnavailable', nonRetryable: true });
});

it('a damaged record of attempts is reported as damage at once', async () => {
  const corrupt = () =>
    Promise.reject(Object.assign(new Error('the record is not what was written'), { name: 'StoreCorrupt' }));
  const store = { putOnce: () => Promise.resolve(null), list: corrupt } as unknown as Store;
  expect(await execution(2, () => tried({ store, place }, failing)).catch((error: unknown) => error)).toMatchObject({
    type: 'StoreCorrupt',
    nonRetryable: true,
  });
});

it('an execution that is over its time reports this itself, ends what it does, and counts as a failure', async () => {
  const over = { startToCloseTimeoutMs: 11_000 };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let ended = false;
  const slow = (attempt: number) =>
    execution(
      attempt,
      () =>
        tried(limits(), async (signal) => {
          signal.addEventListener('abort', () => void (ended = true));
          await new Promise(() => undefined);
        }),
      { over },
    ).catch((error: unknown) => error);
  const first = slow(1);
  await vi.advanceTimersByTimeAsync(6_000);
  vi.useRealTimers();
  expect(await first).toMatchObject({
    type: 'TookTooLong',
    nonRetryable: false,
    message: 'computeReward took longer than 6 s',
  });
  expect(ended).toBe(true);
  expect((await world.now.store.list('tries:')).length).toBe(1);
});

it('the deadline of a rollout is reported by the server', async () => {
  const over = { startToCloseTimeoutMs: 11_000, scheduleToCloseTimeoutMs: 11_000 };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { promise, resolve } = Promise.withResolvers<string>();
  const work = execution(1, () => tried(limits(), () => promise), { over }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(60_000);
  resolve('done');
  vi.useRealTimers();
  expect(await work).toBe('done');
});

// This is the last test: its process considers itself frozen for a while.
it('a failure in a process that was frozen counts as a lost worker, before the server reports that it was given up', async () => {
  const now = vi.spyOn(performance, 'now');
  const late = execution(9, () =>
    tried(limits(), async () => {
      now.mockReturnValue(performance.now() + 20_000);
      return failing();
    }),
  );
  await expect(late).rejects.toMatchObject({ nonRetryable: false });
  now.mockRestore();
  expect(await world.now.store.list('tries:')).toEqual([]);
});
