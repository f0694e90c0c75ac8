/**
 * `bench dispatch`: how long a batch takes in our orders and in SkyRL-Agent's. All of them use the real workflows on a
 * real Temporal server, with activities that sleep. All batches share one server and run side by side.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { QUEUES } from '../../protocol/queues.ts';
import type { BatchInput } from '../../protocol/batch.ts';
import { startOwnWorkers, withOwnTemporal } from '../own-temporal.ts';
import { type DispatchCase, liveSandboxesCap, lowerBound } from './cases.ts';
import { measure, type Measures } from './measure.ts';
import { type Order, ORDERS, scheduleFor, settingsFor } from './orders.ts';
import { simulated } from './simulate.ts';
import { type Job, sleepingActivities } from './sleeping-parts.ts';
import type { batch, referenceBatch } from '../workflows.ts';

export interface DispatchOptions {
  readonly cases: readonly DispatchCase[];
  /** Seconds per unit of a case. */
  readonly scale: number;
  readonly note: (line: string) => void;
}

const idOf = (given: DispatchCase, order: Order) => `dispatch/${given.name}/${order}`;

function inputOf(given: DispatchCase, order: Order): BatchInput {
  return {
    run: 'bench',
    name: order,
    step: 1,
    tasks: Array.from({ length: given.tasks }, (_, i) => String(i)),
    samples: given.samples,
    policy: { uri: 'file:///empty', version: 0 },
    agent: { maxTurns: 1, maxContextTokens: 1, toolTimeoutSeconds: 60 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 1 },
    seed: 0,
    dispatcher: settingsFor(order, given),
  };
}

/** The timeout of a batch: one that takes several times as long as its stages is stuck. */
function deadlineOf(given: DispatchCase, order: Order, scale: number): `${number}s` {
  return `${Math.ceil(3 * scale * simulated(given, order).makespan + 300)}s`;
}

/** Starts a batch; `result` resolves with its measures, in units of the case. */
async function begin(
  client: Client,
  given: DispatchCase,
  order: Order,
  job: Job,
  scale: number,
): Promise<{ result: Promise<Measures> }> {
  const options = {
    taskQueue: QUEUES.orchestrator,
    workflowId: idOf(given, order),
    workflowExecutionTimeout: deadlineOf(given, order, scale),
  };
  const input = inputOf(given, order);
  const reference = { run: given.maxParallelAgents, evaluation: given.maxEvalParallelAgents };
  const handle = await (order === 'reference'
    ? client.workflow.start<typeof referenceBatch>('referenceBatch', { ...options, args: [{ ...input, reference }] })
    : client.workflow.start<typeof batch>('batch', { ...options, args: [input] }));
  const result = async () => {
    const { seconds, graded } = await handle.result().finally(() => (job.over = true));
    const stages = 3 * given.times.length;
    if (graded !== given.times.length || job.intervals.length !== stages) {
      throw new Error(
        `${idOf(given, order)}: ${job.intervals.length} stages ran, expected ${stages}; ` +
          'on an overloaded machine give a larger --scale',
      );
    }
    return measure(job.intervals, given.maxParallelAgents, seconds / scale);
  };
  return { result: result() };
}

/** A batch's first rollouts start all at once: waits until they have started, so that the next batch may start. */
async function firstWave(given: DispatchCase, order: Order, job: Job): Promise<void> {
  const { caps } = scheduleFor(order, given);
  const wave = Math.min(given.times.length, caps.open, caps.init);
  while (job.begun < wave && !job.over) await sleep(50);
}

/** The first work of a worker takes longer: runs a small batch whose stages take no time through all queues. */
async function warmUp(client: Client, jobs: Map<string, Job>): Promise<void> {
  const times = Array.from({ length: 40 }, () => ({ init: 0, 'agent-run': 0, reward: 0 }));
  const given = { name: 'warm-up', tasks: 10, samples: 4, maxParallelAgents: 4, maxEvalParallelAgents: 4, times };
  const job: Job = { given, begun: 0, over: false, intervals: [] };
  jobs.set(idOf(given, 'pipeline'), job);
  await (
    await begin(client, given, 'pipeline', job, 1)
  ).result;
}

function mix(given: DispatchCase, measured: Readonly<Record<Order, Measures>>) {
  const of = <K extends keyof Measures>(key: K, orders: readonly Order[] = ORDERS) =>
    Object.fromEntries(orders.map((order) => [order, measured[order][key]])) as Record<Order, Measures[K]>;
  const virtual = ORDERS.map((order) => [order, simulated(given, order).makespan]);
  return {
    name: given.name,
    lowerBound: lowerBound(given),
    reference: measured.reference.makespan,
    makespan: of('makespan', ['batch', 'bounded', 'pipeline']),
    runUtilisation: of('runUtilisation'),
    liveSandboxesPeak: of('liveSandboxesPeak'),
    liveSandboxesCap: liveSandboxesCap(given),
    speedup: measured.bounded.makespan / measured.pipeline.makespan,
    /** The same orders on a clock on which only the stages take time. */
    virtualClock: Object.fromEntries(virtual) as Record<Order, number>,
  };
}

/** Orders that run side by side. All-at-once batches run alone, since their waves would slow down all others. */
const PHASES: ReadonlyArray<readonly Order[]> = [['bounded', 'pipeline', 'reference'], ['batch']];

/** Runs every case in the orders of a phase; returns the measures by batch. */
async function runPhase(
  client: Client,
  jobs: Map<string, Job>,
  orders: readonly Order[],
  { cases, scale }: DispatchOptions,
) {
  const results: Array<Promise<readonly [string, Measures]>> = [];
  for (const given of cases) {
    for (const order of orders) {
      const id = idOf(given, order);
      const job: Job = { given, begun: 0, over: false, intervals: [] };
      jobs.set(id, job);
      const { result } = await begin(client, given, order, job, scale);
      const named = result.then((measures) => [id, measures] as const);
      // Awaited below, when every batch has started.
      named.catch(() => undefined);
      results.push(named);
      await firstWave(given, order, job);
    }
  }
  return Promise.all(results);
}

async function measureAll(client: Client, jobs: Map<string, Job>, options: DispatchOptions) {
  await warmUp(client, jobs);
  const measured = new Map<string, Measures>();
  for (const orders of PHASES) {
    for (const [id, measures] of await runPhase(client, jobs, orders, options)) measured.set(id, measures);
    options.note(`${orders.join(', ')}: ended`);
  }
  const found = (given: DispatchCase, order: Order) => {
    const measures = measured.get(idOf(given, order));
    if (!measures) throw new TypeError(`${idOf(given, order)} belongs to no phase`);
    return measures;
  };
  return options.cases.map((given) =>
    mix(given, Object.fromEntries(ORDERS.map((order) => [order, found(given, order)])) as Record<Order, Measures>),
  );
}

/** Starts and stops its own server and workers. */
export async function benchDispatch(options: DispatchOptions) {
  return withOwnTemporal(async ({ address }) => {
    const jobs = new Map<string, Job>();
    const rollouts = options.cases.reduce((sum, { times }) => sum + times.length, 0);
    const activities = sleepingActivities(jobs, options.scale);
    const stop = await startOwnWorkers({
      address,
      workflows: '../workflows',
      from: import.meta,
      activities,
      slots: 4 * rollouts + 40,
      cachedWorkflows: 4 * rollouts + 100,
      // Hundreds sleep at once, for long: at the usual interval their heartbeats would be most of the server's work.
      heartbeatEvery: '10s',
    });
    const connection = await Connection.connect({ address });
    try {
      const begun = performance.now();
      const mixes = await measureAll(new Client({ connection }), jobs, options);
      const logs = mixes.map(({ makespan, reference }) => Math.log(makespan.pipeline / reference));
      const pipelineToReference = Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);
      return { scale: options.scale, seconds: (performance.now() - begun) / 1000, pipelineToReference, mixes };
    } finally {
      await connection.close();
      await stop();
    }
  });
}
