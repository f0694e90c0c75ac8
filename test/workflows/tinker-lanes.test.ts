/**
 * The Tinker API's lanes on a real Temporal server: a request wakes its lane, an idle lane ends and starts again, a lost
 * worker's lane goes to another one, and no request is an event of a history. Not asserted: the engine (a fake here).
 */
import { NativeConnection, Worker } from '@temporalio/worker';
import { Client, Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { createTinkerActivities } from '../../activities/tinker/tinker.ts';
import { DRAIN_LIMITS } from '../../activities/tinker/limits.ts';
import { kindQueue } from '../../protocol/queues.ts';
import { TINKER_QUEUE } from '../../protocol/tinker-lanes.ts';
import type { TinkerOperation } from '../../protocol/tinker.ts';
import { openTinkerBook, type TinkerBook } from '../../servers/tinker/tinker-book.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { openTinkerJournal, type SqliteJournal } from '../../store/tinker/sqlite-journal.ts';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import { FakeEngine, type FakeOptions } from '../activities/tinker/fake-engine.ts';
import { create, model, pass, sample } from '../store/tinker/contract.ts';
import { quietTemporal } from '../support/quiet-temporal.ts';

let server: Awaited<ReturnType<typeof startPrivateServer>>;
let connection: NativeConnection;
let client: Client;
let orchestrator: Worker;
let running: Promise<void>;
const dir = mkdtempSync(join(tmpdir(), 'longhaul-lanes-'));
beforeAll(async () => {
  quietTemporal();
  server = await startPrivateServer(mkdtempSync(join(dir, 'server-')));
  connection = await NativeConnection.connect({ address: server.address });
  client = new Client({ connection: await Connection.connect({ address: server.address }) });
  orchestrator = await Worker.create({
    connection,
    taskQueue: 'orchestrator',
    workflowBundle: { codePath: await buildWorkflowBundle() },
  });
  running = orchestrator.run();
});
afterAll(async () => {
  orchestrator.shutdown();
  await running;
  await client.connection.close();
  await connection.close();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

let store: string;
let book: TinkerBook;
let stops: Array<() => Promise<void>> = [];
const said: string[] = [];
beforeEach(async () => {
  store = `sqlite:${mkdtempSync(join(dir, 'store-'))}`;
  const bases = [{ name: 'base', dir: '/base' }];
  book = await openTinkerBook({ store, client, bases, say: (line) => void said.push(line), housekeepingMs: 500 });
});
afterEach(async () => {
  for (const stop of stops) await stop();
  stops = [];
  await book.close();
});

async function startWorker(options: FakeOptions = {}, idleMs = 200, kind = 'k1') {
  let journal: SqliteJournal | undefined;
  const engine = new FakeEngine(options);
  const activities = {
    ...createTinkerActivities({
      journal: () => (journal ??= openTinkerJournal(store)),
      engine,
      kind,
      owner: 'w',
      say: (line) => void said.push(line),
      limits: { ...DRAIN_LIMITS, idleMs, pauseMs: 10 },
    }),
  };
  const workers = await Promise.all(
    [undefined, kind].map((one) =>
      Worker.create({
        connection,
        taskQueue: kindQueue(TINKER_QUEUE, one),
        activities,
        shutdownForceTime: '20s',
        maxHeartbeatThrottleInterval: '1s',
        defaultHeartbeatThrottleInterval: '1s',
      }),
    ),
  );
  const all = workers.map((worker) => worker.run());
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    for (const worker of workers) worker.shutdown();
    await Promise.allSettled(all);
    await journal?.close();
  };
  stops.push(stop);
  return { engine, stop };
}

let serial = 0;
const newModel = async (tenant = 'ann') => {
  const id = `s${(serial += 1)}:train:0`;
  await book.putModel(model(id, { tenant }));
  return id;
};
const numbers = new Map<string, number>();
const ask = async (lane: string, operation: TinkerOperation, tenant = 'ann') => {
  const seq = numbers.get(lane) ?? 0;
  numbers.set(lane, seq + 1);
  return (await book.accept({ tenant, lane, seq, digest: `${seq}`, operation })).requestId;
};
const result = async (request: string, tenant = 'ann') => {
  const future = await book.waitFor(request, tenant, 120_000);
  return future?.state === 'finished' ? future.result : future;
};
const passing = (token: number): TinkerOperation => ({ kind: 'pass', pass: pass(token) });
const eventsOf = async (id: string) =>
  (await client.workflow.getHandle(`tinker/${id}`).fetchHistory()).events!.map(({ eventType }) => Number(eventType));

it('hundreds of requests are a handful of events, and a lane that was idle wakes again', async () => {
  await startWorker();
  const id = await newModel();
  await result(await ask(id, create));
  const requests: string[] = [];
  for (let i = 0; i < 200; i += 1) requests.push(await ask(id, passing(i)));
  expect(
    (await Promise.all(requests.map((one) => result(one)))).every(
      (one) => one !== undefined && 'kind' in one && one.kind === 'pass',
    ),
  ).toBe(true);
  expect((await eventsOf(id)).length).toBeLessThan(40);
  // The drain is over when its lane has been idle.
  await expect
    .poll(async () => (await client.workflow.getHandle(`tinker/${id}`).describe()).raw.pendingActivities?.length ?? 0)
    .toBe(0);
  expect(await result(await ask(id, passing(1)))).toMatchObject({ kind: 'pass' });
  expect((await client.workflow.getHandle(`tinker/${id}`).describe()).status.name).toBe('RUNNING');
});

it('a request that was accepted before any worker lived is done when one comes, by the kind that began', async () => {
  const id = await newModel();
  const first = await ask(id, create);
  const { stop } = await startWorker({}, 200, 'k2');
  expect(await result(first)).toEqual({ kind: 'done' });
  await client.workflow.getHandle(`tinker/${id}`).terminate();
  const again = await ask(id, passing(1));
  expect(await result(again)).toMatchObject({ kind: 'pass' });
  await stop();
  await startWorker({}, 200, 'k3');
  const other = await ask(id, passing(2));
  const sampler = `s${serial}:sample:k3`;
  await book.putSampler({ id: sampler, session: 's', tenant: 'ann', baseModel: 'base' });
  expect(await result(await ask(sampler, sample(1)))).toMatchObject({ kind: 'sample' });
  expect(await book.future(other, 'ann')).toMatchObject({ state: 'waiting' });
});

it('a worker that stops hands its model on, with the gradient', async () => {
  const id = await newModel();
  const first = await startWorker({}, 60_000);
  for (const operation of [create, passing(1), passing(2)]) await result(await ask(id, operation));
  await first.stop();
  await startWorker();
  const adam = { learningRate: 1, beta1: 0, beta2: 0, eps: 1, weightDecay: 0, gradClipNorm: 0 };
  const handed = await result(await ask(id, { kind: 'optim_step', adam }));
  const whole = await newModel();
  for (const operation of [create, passing(1), passing(2)]) await ask(whole, operation);
  expect(handed).toEqual(await result(await ask(whole, { kind: 'optim_step', adam })));
});

it('samples of a base have one lane for all samplers', async () => {
  const { engine } = await startWorker();
  const samplers = ['x', 'y', 'z'].map((name) => `s${serial}:sample:${name}`);
  for (const id of samplers) await book.putSampler({ id, session: 's', tenant: 'ann', baseModel: 'base' });
  const requests = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(samplers[i % 3]!, sample(i))));
  const results = await Promise.all(requests.map((one) => result(one)));
  expect(results.every((one) => one !== undefined && 'kind' in one && one.kind === 'sample')).toBe(true);
  expect(engine.atOnce).toBeGreaterThan(5);
  expect((await eventsOf('sampling/base')).length).toBeLessThan(60);
});
