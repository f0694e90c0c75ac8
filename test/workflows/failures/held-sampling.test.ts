/**
 * Hunts other tokens after a checkpoint was changed and restored: the rollout that would sample from it is held, and
 * samples the same when it is resumed. Server, store, files and the sampling activity are real; the engine is empty.
 */
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { ApplicationFailure } from '@temporalio/common';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createGpuActivities } from '../../../activities/gpu.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { emptyEngine, emptyEnvironment, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { fingerprintOf, MadeOfFiles } from '../../../trainer/checkpoints/policy-files.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

defineEnvironment(emptyEnvironment);
let beforeTurn: (turn: number, rollout: string) => void = () => undefined;
const digests = new MadeOfFiles(fingerprintOf, 4);

const world = useStoreWorld((store, { gpu }) => {
  const real = createGpuActivities({
    store,
    tasks: new TaskLoader(store),
    endpoints: new EndpointClient(),
    ...embeddedOnly({
      engine: emptyEngine(3),
      tokenizerOf: async () => emptyTokenizer,
      digestOf: (dir) => digests.of(dir),
    }),
  });
  return {
    gpu: {
      ...gpu,
      generate: async (input) => {
        beforeTurn(input.turn, input.rollout);
        return real.generate(input).catch((error: unknown) => {
          if (!(error instanceof ApplicationFailure) || error.nonRetryable) throw error;
          throw ApplicationFailure.create({ type: error.type ?? '', message: error.message, nextRetryDelay: '20ms' });
        });
      },
    },
  };
});

it.each([
  ['changed', (file: string) => writeFileSync(file, 'other weights')],
  ['gone with its folder', (file: string) => rmSync(join(file, '..'), { recursive: true })],
])(
  'a rollout whose checkpoint is %s in the middle of it is held, and samples the same when it is back',
  async (how, spoil) => {
    const policyDir = join(world.dir, how.replaceAll(' ', '-'));
    const file = join(policyDir, 'model.safetensors');
    mkdirSync(policyDir);
    writeFileSync(file, 'weights');
    const whole = readFileSync(file);
    const policy = { uri: fileUri(policyDir), version: 1, digest: await fingerprintOf(policyDir) };
    const ids = [`undisturbed/${how}`, `disturbed/${how}`] as const;
    let spoilt = false;
    beforeTurn = (turn, rollout) => {
      if (turn !== 2 || spoilt || rollout !== ids[1]) return;
      spoilt = true;
      spoil(file);
    };
    const start = (id: string) => world.start('rollout', id, { task: 'empty-train-0', policy });
    expect(await (await start(ids[0])).result()).toMatchObject({ status: 'graded', turns: 3 });
    const handle = await start(ids[1]);
    await expect
      .poll(async () => (await handle.query<RolloutState>('state')).held)
      .toMatchObject({
        failure: 'checkpoint-torn',
        message: expect.stringContaining(policyDir) as string,
        work: `the sampling of turn 2 of ${ids[1]}`,
      });
    mkdirSync(policyDir, { recursive: true });
    writeFileSync(file, whole);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ status: 'graded', turns: 3, attempt: 1 });
    const sampled = async (id: string) =>
      (await world.store.list<GenerateRecord>(`generate:${id}#1/`)).map(({ value }) => value);
    expect(await sampled(ids[1])).toEqual(await sampled(ids[0]));
    expect((await sampled(ids[1])).length).toBe(3);
  },
);
