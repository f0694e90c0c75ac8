/**
 * Hunts groups that a restart loses or trains on twice: of the workers, of a group's workflow, and of the run itself
 * from its records. Real server and workflows, scripted activities.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import type { BatchStatus } from '../../../protocol/batch.ts';
import type { OpenedRun, StepToRecord } from '../../../protocol/activities.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import type { Script } from '../../support/scripted-activities.ts';
import { startWorld, type World } from '../../support/workflow-world.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-restart-'));
let server: PrivateServer;
let world: World;
let script: Script = {};
const updates: UpdateInput[] = [];
const steps: StepToRecord[] = [];
let resume: OpenedRun['resume'];
/** Before a run is opened. */
let opening: () => Promise<void> = async () => undefined;
/** The executions by which runs were opened and closed. */
const executions: Array<string | undefined> = [];

const open = () =>
  startWorld(
    server.address,
    {
      turn: (input) => script.turn?.(input) ?? 'finish',
      before: (activity, input) => script.before?.(activity, input),
      update: (input) => void updates.push(input),
    },
    ({ orchestrator }) => ({
      orchestrator: {
        ...orchestrator,
        openRun: async (given, run, execution) => {
          executions.push(execution);
          await opening();
          return { ...(await orchestrator.openRun(given, run)), ...(resume ? { resume } : {}) };
        },
        closeRun: async (input) => {
          executions.push(input.execution);
          await orchestrator.closeRun(input);
        },
        recordStep: async (input) => {
          steps.push(input);
          await orchestrator.recordStep(input);
        },
      },
    }),
  );

beforeAll(async () => {
  server = await startPrivateServer(dir);
  world = await open();
});
afterAll(async () => {
  await world?.stop();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(() => {
  script = {};
  updates.length = 0;
  steps.length = 0;
  executions.length = 0;
  resume = undefined;
  opening = async () => undefined;
});

const start = (run: string) =>
  world.client.workflow.start('train', {
    taskQueue: 'orchestrator',
    workflowId: `train/${run}`,
    args: [
      {
        run,
        policy: { base: '/p' },
        task: { name: 't', train: 40 },
        steps: 3,
        batch: { tasks: 2, samples: 2 },
        training: { mode: 'async', maxStalenessSteps: 1 },
        evaluation: { tasks: 1, greedy: false },
        dispatcher: { type: 'bounded', maxParallelAgents: 8 },
      },
    ],
  });
const trainedGroups = (name: string) =>
  updates.filter(({ run }) => run === name).flatMap(({ batches }) => batches.map((id) => id.split('/')[2]!));
const every = ['group-1', 'group-2', 'group-3', 'group-4', 'group-5', 'group-6'];

/** The rollouts of one group wait for `ended`; `acting` resolves when they do. */
function holding(group: string) {
  const [acting, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  script = {
    turn: ({ turn, rollout }) => (turn < 2 && rollout.includes(`/${group}/`) ? 'act' : 'finish'),
    before: async (activity, { rollout = '' }) => {
      if (activity !== 'agentRun' || !rollout.includes(`/${group}/`)) return;
      acting.resolve();
      await ended.promise;
    },
  };
  return { acting: acting.promise, end: () => ended.resolve() };
}

it('workers that are stopped, with groups in flight and others that wait, return to the same run', async () => {
  const held = holding('group-2');
  const handle = await start('workers');
  await held.acting;
  await expect.poll(async () => (await handle.query<TrainStatus>('status')).overlap?.waiting).toBeGreaterThan(0);
  held.end();
  await world.stop();
  world = await open();
  expect(await world.client.workflow.getHandle('train/workers').result()).toMatchObject({ steps: 3 });
  expect(trainedGroups('workers').sort()).toEqual(every);
});

it('a group from before its run was started again that is terminated starts again when the run is resumed', async () => {
  const held = holding('group-1');
  const first = await start('told');
  await held.acting;
  await first.terminate('by hand');
  const second = await start('told');
  await expect.poll(async () => (await second.query<TrainStatus>('status')).overlap?.running).toBeGreaterThan(0);
  // Until the run has tried to start the unit, which it finds running.
  await expect
    .poll(async () =>
      (await second.fetchHistory()).events?.some(
        ({ startChildWorkflowExecutionFailedEventAttributes: refused }) => refused?.workflowId === 'train/told/group-1',
      ),
    )
    .toBe(true);
  await world.client.workflow.getHandle('train/told/group-1').terminate('by hand');
  held.end();
  await second.signal('pause');
  await second.signal('resume');
  expect(await second.result()).toMatchObject({ steps: 3 });
  expect(trainedGroups('told').sort()).toEqual(every);
});

it('a group that was paused before its run was terminated continues when the run is started again', async () => {
  const held = holding('group-1');
  const first = await start('stood');
  await held.acting;
  await first.signal('pause');
  const batch = world.client.workflow.getHandle('train/stood/group-1');
  await expect.poll(async () => (await batch.query<BatchStatus>('status')).paused).toBe(true);
  await first.terminate('by hand');
  const second = await start('stood');
  held.end();
  expect(await second.result()).toMatchObject({ steps: 3 });
  expect(trainedGroups('stood').sort()).toEqual(every);
});

it('a run that ends does not wait for a group that was terminated meanwhile', async () => {
  const held = holding('group-5');
  const handle = await start('ending');
  await held.acting;
  const unit = world.client.workflow.getHandle('train/ending/group-5');
  await handle.signal('pause');
  await unit.terminate('by hand');
  await handle.cancel();
  held.end();
  await expect(handle.result()).rejects.toThrow();
  expect((await handle.describe()).status.name).toBe('CANCELLED');
});

it('a run that is started again continues from its last recorded step, with the groups that had started', async () => {
  const held = holding('group-4');
  const first = await start('again');
  await held.acting;
  await expect.poll(() => steps.length).toBeGreaterThan(0);
  await first.terminate('by hand');
  const { record, policy, overlap } = steps.at(-1)!;
  const before = trainedGroups('again').slice(0, 2 * record.step);
  updates.length = 0;
  resume = { step: record.step, policy, overlap: overlap! };
  expect(resume.overlap.running.map(({ number }) => number)).toContain(4);
  const second = await start('again');
  held.end();
  expect(await second.result()).toMatchObject({ steps: 3, policy: { version: 3 } });
  expect([...before, ...trainedGroups('again')].sort()).toEqual(every);
  for (const {
    step,
    policy: { version },
  } of updates)
    expect(version).toBe(step - 1);
});

it('a run that is started again after it was cancelled opens and ends as another execution', async () => {
  const held = holding('group-1');
  const first = await start('cancelled');
  await held.acting;
  await first.cancel();
  held.end();
  await expect(first.result()).rejects.toThrow();
  const second = await start('cancelled');
  expect(await second.result()).toMatchObject({ steps: 3 });
  const [one, other] = [first.firstExecutionRunId, second.firstExecutionRunId];
  expect(executions).toEqual([one, one, other, other]);
});

it('a group that ends while its run is being started again is not rolled out once more', async () => {
  world.log.calls.length = 0;
  const held = holding('group-4');
  const first = await start('meanwhile');
  await held.acting;
  await expect.poll(() => steps.length).toBeGreaterThan(0);
  await first.terminate('by hand');
  const { record, policy, overlap } = steps.at(-1)!;
  resume = { step: record.step, policy, overlap: overlap! };
  expect(resume.overlap.running.map(({ number }) => number)).toContain(4);
  const unit = world.client.workflow.getHandle('train/meanwhile/group-4');
  opening = async () => {
    held.end();
    await unit.result();
  };
  expect(await (await start('meanwhile')).result()).toMatchObject({ steps: 3, policy: { version: 3 } });
  expect(
    world.log.calls.filter(({ activity, rollout }) => activity === 'recordDispatched' && rollout === 'group-4'),
  ).toHaveLength(1);
});

/** Why: an update is applied once, with the groups that it was made from; after a restart others may end first. */
it('a run that ended between an update and its step’s record trains that step on the same groups', async () => {
  const first = await start('between');
  await expect.poll(() => updates.length).toBeGreaterThan(0);
  await first.terminate('by hand');
  const owed = updates.find(({ step }) => step === 1)!.units!;
  expect(owed.length).toBe(2);
  updates.length = 0;
  // Another choice than in the order of their ends.
  const another = [1, 2, 3].find((number) => !owed.includes(number))!;
  const again = [owed[1]!, another].toSorted((a, b) => a - b);
  resume = {
    step: 0,
    policy: { uri: 'file:///v0', version: 0 },
    overlap: { begun: 0, running: [], ended: [] },
    owed: again,
  };
  expect(await (await start('between')).result()).toMatchObject({ steps: 3 });
  expect(updates.find(({ step }) => step === 1)).toMatchObject({ units: again });
  expect(trainedGroups('between').sort()).toEqual(every);
});
