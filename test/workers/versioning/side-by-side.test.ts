/**
 * An upgrade in the middle of a run, on a real server. Hunts a rollout that continues with other code than it started
 * with, a rollout without a worker, and new work that starts on the old code. Activities are scripted.
 */
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import { deploymentOptions, isVersioned, promote, unfinishedBuilds } from '../../../workers/versioning/deployment.ts';
import { EarlierBuilds } from '../../../workers/versioning/earlier-builds.ts';
import { buildIdOf, buildWorkflowBundle } from '../../../workers/workflow-bundle.ts';
import { hostQueue, QUEUES } from '../../../protocol/queues.ts';
import { type Log, scriptedActivities } from '../../support/scripted-activities.ts';
import { quietTemporal } from '../../support/quiet-temporal.ts';

quietTemporal();

const dir = mkdtempSync(join(tmpdir(), 'longhaul-builds-'));
const log: Log = { calls: [], held: new Set(), live: 0, peakLive: 0 };
let hold = true;
const before = async (activity: string) => {
  while (hold && activity === 'agentRun') await new Promise((resolve) => setTimeout(resolve, 50));
};
const activities = scriptedActivities({ before }, log);
let server: PrivateServer;
let native: NativeConnection;
let client: Client;
let next: string;
const running: Array<{ readonly worker: Worker; readonly done: Promise<void> }> = [];
const run = (worker: Worker) => {
  running.push({ worker, done: worker.run() });
  return worker;
};
const orchestrator = async (build: string, codePath: string) =>
  Worker.create({
    connection: native,
    taskQueue: QUEUES.orchestrator,
    workflowBundle: { codePath },
    workerDeploymentOptions: deploymentOptions(build),
    activities: { ...activities.orchestrator, ...activities.sweeps },
  });

beforeAll(async () => {
  server = await startPrivateServer(dir);
  native = await NativeConnection.connect({ address: server.address });
  client = new Client({ connection: await Connection.connect({ address: server.address }) });
  const queues: Array<[string, object]> = [
    [QUEUES.init, activities.init],
    [QUEUES.gpu, activities.gpu],
    [QUEUES.reward, activities.reward],
    [hostQueue('test-host'), activities.agentRun],
  ];
  for (const [taskQueue, own] of queues)
    run(await Worker.create({ connection: native, taskQueue, activities: { ...own } }));
});
afterAll(async () => {
  for (const { worker, done } of running) {
    if (worker.getState() === 'RUNNING') worker.shutdown();
    await done;
  }
  rmSync(next, { force: true });
  await client.connection.close();
  await native.close();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** The builds that ran a workflow's tasks, in their order, each once. */
async function buildsOf(workflowId: string): Promise<string[]> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const builds = (events ?? []).flatMap(
    ({ workflowTaskCompletedEventAttributes: done }) =>
      done?.deploymentVersion?.buildId ?? done?.workerDeploymentVersion ?? [],
  );
  return [...new Set(builds.map((build) => build.replace(/^longhaul[.:]/, '')))];
}

describe('builds side by side', () => {
  it('a rollout and its batch end on the build that they began with, what begins later is of the new one, and a run moves over', async () => {
    const bundle = await buildWorkflowBundle('versioned');
    const old = buildIdOf(bundle);
    next = join(dirname(bundle), `${old}-next.js`);
    // Before the code: what follows it is its source map.
    writeFileSync(next, `// The build after it.\n${readFileSync(bundle, 'utf8')}`);
    const first = run(await orchestrator(old, bundle));
    await promote(native, 'default', old);
    const start = (workflow: string, workflowId: string, arg: object) =>
      client.workflow.start(workflow, { taskQueue: QUEUES.orchestrator, workflowId, args: [arg] });
    const policy = { uri: 'file:///p', version: 1 };
    const rollout = await start('rollout', 'before', { task: 't-train-0', policy });
    const training = await start('train', 'train/moving', {
      run: 'moving',
      policy: { base: '/p' },
      task: { name: 't', train: 4 },
      steps: 1,
      batch: { tasks: 1, samples: 2 },
      evaluation: { tasks: 1, greedy: false },
    });
    await expect.poll(() => log.calls.filter(({ activity }) => activity === 'agentRun').length).toBe(2);

    first.shutdown();
    run(await orchestrator(`${old}-next`, next));
    await promote(native, 'default', `${old}-next`);
    const said: string[] = [];
    const earlier = new EarlierBuilds({
      unfinished: () => unfinishedBuilds(native, 'default'),
      create: orchestrator,
      say: (line) => said.push(line),
    });
    await expect.poll(async () => (await earlier.adjust(), earlier.builds), { interval: 500 }).toEqual([old]);
    const watching = earlier.watch();
    const later = await start('rollout', 'after', { task: 't-train-0', policy });
    hold = false;
    expect(await rollout.result()).toMatchObject({ status: 'graded' });
    expect(await later.result()).toMatchObject({ status: 'graded' });
    expect(await training.result()).toMatchObject({ steps: 1 });
    expect(await buildsOf('before')).toEqual([old]);
    expect(await buildsOf('after')).toEqual([`${old}-next`]);
    expect(await buildsOf('train/moving')).toEqual([old, `${old}-next`]);
    expect(await buildsOf('train/moving/eval-0-sampled')).toEqual([old]);
    expect(await buildsOf('train/moving/eval-0-sampled/t-held-out-0/0')).toEqual([old]);
    expect(await buildsOf('train/moving/step-1')).toEqual([`${old}-next`]);
    expect(said).toEqual([`Build ${old} has a worker until its rollouts have ended`]);
    earlier.stop();
    await watching;
  });

  it('is asked for by a word that is understood', () => {
    expect([
      isVersioned({}),
      isVersioned({ LONGHAUL_VERSIONING: '0' }),
      isVersioned({ LONGHAUL_VERSIONING: '1' }),
    ]).toEqual([false, false, true]);
    expect(() => isVersioned({ LONGHAUL_VERSIONING: 'yes' })).toThrow(/LONGHAUL_VERSIONING: "yes" cannot be used/);
  });

  it('names a build whose code is not there, once, and ends the worker of one that has nothing left', async () => {
    let wanted = ['gone', 'kept'];
    const said: string[] = [];
    let end: () => void = () => undefined;
    const done = new Promise<void>((resolve) => {
      end = resolve;
    });
    const worker = { run: () => done, shutdown: () => end() } as unknown as Worker;
    const kept = join(dirname(await buildWorkflowBundle('versioned')), 'kept.js');
    copyFileSync(await buildWorkflowBundle('versioned'), kept);
    try {
      const builds = new EarlierBuilds({
        unfinished: async () => wanted,
        create: async () => worker,
        say: (line) => said.push(line),
      });
      await builds.adjust();
      await builds.adjust();
      expect(builds.builds).toEqual(['kept']);
      wanted = ['gone'];
      await builds.adjust();
      expect(builds.builds).toEqual([]);
    } finally {
      rmSync(kept);
    }
    expect(said.map((line) => line.slice(0, 24))).toEqual([
      'Build gone has open roll',
      'Build kept has a worker ',
      'Build kept: all of its r',
    ]);
  });
});
