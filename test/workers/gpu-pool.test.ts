/** Hunts pools that this machine cannot have, queues without a worker, and workers that take work they cannot do. */

import { describe, expect, it } from 'vitest';
import { planGpuPool, readGpuDuty, readGpuPool, refusedPlacement } from '../../workers/gpu-pool.ts';
import { queuesOf } from '../../workers/roles/gpu.ts';
import { gpuWorkers, stackPlan } from '../../stack/stack-plan.ts';
import { gpuDevices } from '../../workers/gpu-devices.ts';

const pool = (text: string) => readGpuPool({ LONGHAUL_GPU_WORKERS: text });

describe('the pool', () => {
  it('is one worker, one for each device, or what is asked for', () => {
    expect(readGpuPool({})).toEqual(['both']);
    expect(readGpuPool({}, ['0', '3'])).toEqual(['both', 'both']);
    expect(pool('3')).toEqual(['both', 'both', 'both']);
    expect(pool('generate, train')).toEqual(['generate', 'train']);
    expect(readGpuDuty({ LONGHAUL_GPU_DOES: 'train' })).toBe('train');
  });

  it.each(['0', '65', '1.5', 'many', 'both,,both', 'generate', 'train,train', 'generate,sample'])(
    'of %j is refused by name, with what to give',
    (text) => {
      expect(() => pool(text)).toThrow(/^LONGHAUL_GPU_WORKERS: .* cannot be used; .*give/);
    },
  );

  it('gives each worker a device of its own, or a share of the half of the cores', () => {
    expect(planGpuPool({}, { devices: [], cores: 8 })).toEqual([{ name: 'gpu', does: 'both', threads: 4 }]);
    expect(
      planGpuPool({ LONGHAUL_GPU_WORKERS: '3' }, { devices: [], cores: 8 }).map(({ name, threads }) => [name, threads]),
    ).toEqual([
      ['gpu', 1],
      ['gpu-2', 1],
      ['gpu-3', 1],
    ]);
    expect(planGpuPool({}, { devices: ['0', '2'], cores: 2 }).map(({ name, device }) => [name, device])).toEqual([
      ['gpu', '0'],
      ['gpu-2', '2'],
    ]);
    expect(
      planGpuPool({ LONGHAUL_GPU_WORKERS: 'generate,train' }, { devices: ['0', '1', '2'], cores: 2 }).map(
        ({ does, device }) => [does, device],
      ),
    ).toEqual([
      ['generate', '0'],
      ['train', '1'],
    ]);
    expect(() => planGpuPool({ LONGHAUL_GPU_WORKERS: '3' }, { devices: ['0', '1'], cores: 8 })).toThrow(/there are 2/);
  });

  it('has no devices where there is no driver', () => {
    expect(gpuDevices({ PATH: '/nowhere', CUDA_VISIBLE_DEVICES: '0,1' })).toEqual([]);
  });

  it('that cannot train a run says so before it begins', () => {
    expect(refusedPlacement('colocated', pool('2'))).toBeUndefined();
    expect(refusedPlacement('colocated', pool('both,train'))).toBeUndefined();
    expect(refusedPlacement('disaggregated', pool('generate,train'))).toBeUndefined();
    expect(refusedPlacement('disaggregated', pool('2'))).toBeUndefined();
    expect(refusedPlacement('disaggregated', pool('1'))).toMatch(/one worker does both/);
    expect(refusedPlacement('colocated', pool('generate,train'))).toMatch(/give disaggregated/);
    expect(refusedPlacement('colocated', pool('generate,both'))).toMatch(/give disaggregated/);
  });
});

const nothing = async () => undefined;
const activities = { generate: nothing, update: nothing, optimStep: nothing };

describe('a worker', () => {
  const servedBy = (does: 'both' | 'generate' | 'train', text?: string) =>
    queuesOf({ does, pool: text === undefined ? undefined : pool(text) }, 'host/w', activities).map(
      ([queue, served]) => `${queue}: ${Object.keys(served).join(' ')}`,
    );

  it('that samples serves endpoints apart from the engine, and of several each its own queue beside', () => {
    expect(servedBy('both')).toEqual(['gpu: generate update optimStep', 'endpoint: generate']);
    expect(servedBy('both', '1')).toEqual(['gpu: generate update optimStep', 'endpoint: generate']);
    expect(servedBy('both', '2')).toEqual([
      'gpu: generate update optimStep',
      'endpoint: generate',
      'gpu@host/w: generate',
      'gpu-train: update optimStep',
    ]);
    expect(servedBy('generate', 'generate,train')).toEqual(['gpu: generate update optimStep', 'endpoint: generate']);
    expect(servedBy('train', 'generate,train')).toEqual(['gpu-train: update optimStep']);
    expect(servedBy('generate', 'generate,generate,train')).toEqual([
      'gpu: generate update optimStep',
      'endpoint: generate',
      'gpu@host/w: generate',
    ]);
    expect(servedBy('train')).toEqual(['gpu-train: update optimStep']);
  });

  it('that only samples refuses an update without retries, and names the setting that fixes it', async () => {
    const [[, taken]] = queuesOf({ does: 'generate', pool: pool('generate,train') }, 'w', activities) as [
      [string, Record<string, () => Promise<unknown>>],
    ];
    await expect(taken['update']!()).rejects.toMatchObject({
      type: 'UserInputError',
      nonRetryable: true,
      message: expect.stringMatching(/^training\.placement: .* give disaggregated$/) as unknown,
    });
  });
});

describe('the stack', () => {
  const env = { TEMPORAL_ADDRESS: 'temporal.example:7233', PATH: '/nowhere' };
  const commands = (more: NodeJS.ProcessEnv) => stackPlan({ ...env, ...more }).workers({});

  it('starts one process for each worker, and tells the orchestrator what they do', () => {
    const one = commands({}).filter(({ name }) => name.startsWith('gpu'));
    expect(one.map(({ name, note }) => [name, note])).toEqual([['gpu', undefined]]);
    const several = commands({ LONGHAUL_GPU_WORKERS: 'both,train' });
    expect(
      several
        .filter(({ name }) => name.startsWith('gpu'))
        .map(({ name, note, env: own }) => [
          name,
          note?.split(',')[0],
          own['LONGHAUL_GPU_DOES'],
          own['LONGHAUL_GPU_WORKERS'],
        ]),
    ).toEqual([
      ['gpu', 'samples and trains', 'both', 'both,train'],
      ['gpu-2', 'trains', 'train', 'both,train'],
    ]);
    expect(several.find(({ name }) => name === 'orchestrator')?.env['LONGHAUL_GPU_WORKERS']).toBe('both,train');
    expect(commands({ LONGHAUL_ROLES: 'orchestrator' })[0]?.env['LONGHAUL_GPU_WORKERS']).toBeUndefined();
    expect(() => gpuWorkers({ ...env, LONGHAUL_GPU_WORKERS: 'none' })).toThrow(/LONGHAUL_GPU_WORKERS/);
  });
});
