/**
 * A run whose disk is full for a while (a real one of 2 MB; mounting it needs root), and truncated files: hunts an
 * update that is lost or made twice, and a torn line that stays.
 */
import { trainingBy } from './scripted-parts.ts';
import { fileUri } from '../../protocol/policy-uri.ts';
import { someTasks } from '../support/some-tasks.ts';
import { appendFileSync, readdirSync, readFileSync, rmSync, truncateSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { GenerateRecord, RunRecord, StepEntry, UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { writeRunFiles } from '../../activities/orchestrator/run-folder.ts';
import { updateOnce } from '../../activities/update/update.ts';
import { pausedBy } from '../../store/disk-patience.ts';
import { useSmallDisk } from './small-disk.ts';
import { algorithm, attemptOf, ended, putManifest, RUN, useWorld } from './world.ts';

const world = useWorld();
const qwen3Dir = join(import.meta.dirname, '../vectors/models/qwen3-tiny');
const smallDisk = useSmallDisk();

async function aRun(runDir: string) {
  const { store } = world.now;
  for (const [k, reward] of [1, 0].entries()) {
    await ended(store, 0, k, reward);
    const turn = {
      version: 4,
      appended: [1, 2],
      reset: false,
      sampled: [3, 0],
      logprobs: [-1, -1],
      end: 'stop' as const,
    };
    await store.putOnce<GenerateRecord>(keys.generate(attemptOf(0, k), 1), {
      ...turn,
      parsed: { kind: 'no-call', content: '' },
    });
  }
  const base = { base: fileUri(qwen3Dir), parameters: 1, vocabulary: 1 };
  await store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: base,
    task: { name: 'toy', train: 2, heldOut: 1 },
    tasks: someTasks,
  });
  await putManifest(world.now.store, [attemptOf(0).task]);
  return {
    run: RUN,
    runDir,
    step: 1,
    steps: 2,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm,
    policy: { uri: fileUri(qwen3Dir), version: 4 },
  };
}

describe('a full disk', () => {
  it('delays an update before it trains, and the update is made once there is room', async () => {
    const runDir = smallDisk(join(world.now.dir, 'runs'), 2 * 1024 * 1024);
    writeFileSync(join(runDir, 'filler'), Buffer.alloc(2 * 1024 * 1024 - 8192));
    const said: string[] = [];
    const patience = { firstMs: 20, longestMs: 50, totalMs: 60_000, say: (line: string) => said.push(line) };
    const updated = updateOnce(await aRun(runDir), world.now.store, trainingBy(world.now.engine), () => undefined, {
      patience,
    });
    await expect.poll(() => pausedBy()).toMatch(/No space is left at .*checkpoints/);
    expect(world.now.engine.updates).toEqual([]);
    rmSync(join(runDir, 'filler'));
    expect((await updated).policy.version).toBe(5);
    expect(world.now.engine.updates.length).toBe(1);
    expect(await world.now.store.get<UpdateEntry>(keys.update(RUN, 1))).toBeDefined();
    expect(said.map((line) => line.split(':')[0])).toEqual(['StoreFull', expect.stringContaining('step-1')]);
  });
});

describe('files of a run that were cut short', () => {
  it('are whole again after the next step, since they are written from the store', async () => {
    const runDir = join(world.now.dir, 'run');
    const outcome = await updateOnce(
      await aRun(runDir),
      world.now.store,
      trainingBy(world.now.engine),
      () => undefined,
    );
    const record = { ...outcome.record, seconds: { rollout: 1, train: 1, total: 2 } };
    await world.now.store.putOnce<StepEntry>(keys.step(RUN, 1), {
      record,
      policy: outcome.policy,
      sha256: outcome.sha256,
      keep: true,
    });
    const temporal = { address: 'a', namespace: 'n', ui: 'u' };
    await writeRunFiles(RUN, runDir, world.now.store, temporal);
    const [events = ''] = readdirSync(join(runDir, 'tensorboard'));
    const files = ['metrics.jsonl', 'summary.json', join('tensorboard', events)].map((name) => join(runDir, name));
    const whole = files.map((file) => readFileSync(file));
    for (const file of files) truncateSync(file, Math.floor(statSync(file).size / 2) + 3);
    await writeRunFiles(RUN, runDir, world.now.store, temporal);
    expect(files.map((file) => readFileSync(file))).toEqual(whole);
    for (const file of files) appendFileSync(file, '{"step": 2, "lo');
    await writeRunFiles(RUN, runDir, world.now.store, temporal);
    expect(files.map((file) => readFileSync(file))).toEqual(whole);
  });
});
