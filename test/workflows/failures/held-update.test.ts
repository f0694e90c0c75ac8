/**
 * Hunts other weights after an update that failed on all its attempts and was made again: the run is paused for a torn
 * checkpoint, an operator restores it, and the run ends in the same bits as undisturbed. Server, store and updates are
 * real.
 */
import { trainingBy } from '../../activities/scripted-parts.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { ApplicationFailure } from '@temporalio/common';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { withFailureMapping } from '../../../activities/failure-mapping.ts';
import { withHeartbeat } from '../../../activities/heartbeat.ts';
import type { BatchManifest, GenerateRecord, OutcomeRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { rolloutIds } from '../../../protocol/rollout.ts';
import { manifestOf } from '../../../store/read-records.ts';
import { updateOnce } from '../../../activities/update/update.ts';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import type { Engine } from '../../../trainer/engine.ts';
import { Updater } from '../../../trainer/update.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import type { UpdateInput, UpdateOutcome } from '../../../protocol/update.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const base = join(import.meta.dirname, '../../vectors/models/qwen3-tiny');
let before: (input: UpdateInput) => void = () => undefined;
const tries: string[] = [];

/** The records of scripted rollouts: one of each group is right. */
async function leaveRecords({ batches, samples, policy: { version } }: UpdateInput): Promise<void> {
  const { groups } = await manifestOf(batches[0]!, store);
  const members = groups.flatMap(({ task, rollouts }) => rollouts.map((rollout) => ({ task, rollout })));
  for (const [i, { task, rollout }] of members.entries()) {
    const attempt = { run: 'any', rollout, attempt: 1, task };
    const reward = i % samples === 0 ? 1 : 0;
    const turn = {
      version,
      appended: [1, 2, 5 + i],
      reset: false,
      sampled: [3 + i, 7, 0],
      logprobs: [-6, -6, -6],
      end: 'stop' as const,
    };
    await store.putOnce<GenerateRecord>(keys.generate(attempt, 1), {
      ...turn,
      parsed: { kind: 'no-call', content: '' },
    });
    await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
      ...attempt,
      turns: 1,
      status: 'graded',
      reward,
      passed: reward > 0,
      finish: 'finish-tool',
      failure: null,
      reason: '',
    });
  }
}

async function update(input: UpdateInput): Promise<UpdateOutcome> {
  tries.push(`${input.run} ${input.step}`);
  await leaveRecords(input);
  before(input);
  // A new process each time: nothing is read from memory.
  const engine: Engine = {
    generate: () => Promise.reject(new Error('not asked to sample')),
    update: (request, progress) => new Updater().run(request, progress),
    close: async () => undefined,
  };
  try {
    return await withFailureMapping(() =>
      withHeartbeat((_signal, progress) => updateOnce(input, store, trainingBy(engine), progress)),
    );
  } catch (error) {
    if (!(error instanceof ApplicationFailure) || error.nonRetryable) throw error;
    throw ApplicationFailure.create({ type: error.type ?? '', message: error.message, nextRetryDelay: '20ms' });
  }
}

const world = useStoreWorld((_, { orchestrator, gpu }) => ({
  orchestrator: {
    ...orchestrator,
    recordBatch: async ({ run, batch, tasks, samples }) => {
      const groups = tasks.map((task) => ({ task, rollouts: rolloutIds(batch, [task], samples) }));
      await store.putOnce<BatchManifest>(keys.manifest(batch, groups.length), { run, batch, groups });
    },
    openRun: async (given, run) => ({
      ...(await orchestrator.openRun(given, run)),
      runDir: join(world.dir, run),
      policy: { uri: fileUri(base), version: 0 },
    }),
  },
  gpu: { ...gpu, update },
}));
const { dir, store } = world;

const start = (run: string) =>
  world.start('train', `train/${run}`, {
    run,
    policy: { base },
    task: { name: 't', train: 20 },
    steps: 3,
    batch: { tasks: 2, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'batch' },
  });
const weightsOf = (run: string) =>
  Promise.all(
    [1, 2, 3].map(async (step) => (await readCheckpointRecord(join(dir, run, 'checkpoints', `step-${step}`)))?.sha256),
  );

it('an update that met a torn checkpoint on all its attempts ends in the same weights once the checkpoint is back', async () => {
  await (await start('undisturbed')).result();
  const file = join(dir, 'disturbed', 'checkpoints', 'step-1', 'model.safetensors');
  let whole: Buffer | undefined;
  before = ({ step }) => {
    if (step !== 2 || whole) return;
    whole = readFileSync(file);
    truncateSync(file, 1000);
  };
  const handle = await start('disturbed');
  const status = () => handle.query<TrainStatus>('status');
  await expect
    .poll(async () => (await status()).tripped)
    .toMatchObject({
      failure: 'checkpoint-torn',
      work: 'the update of step 2',
      message: expect.stringContaining('step-1'),
    });
  expect(await status()).toMatchObject({ phase: 'paused', step: 1, policyVersion: 1 });
  expect(tries.filter((one) => one === 'disturbed 2').length).toBe(8);
  writeFileSync(file, whole!);
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 3, policy: { version: 3 } });
  const weights = await weightsOf('disturbed');
  expect(new Set(weights).size).toBe(3);
  expect(weights).toEqual(await weightsOf('undisturbed'));
  expect(tries.filter((one) => one.startsWith('disturbed')).length).toBe(1 + 9 + 1);
});
