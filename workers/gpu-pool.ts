/**
 * The GPU workers of a machine: one process per device, each of which samples, trains or does both. Without devices,
 * workers share the processors instead. Pure: it receives the environment and the machine as arguments.
 */

import { UserInputError } from '../protocol/user-input-error.ts';
import type { TrainingPlacement } from '../protocol/run-config.ts';

export const GPU_DUTIES = ['both', 'generate', 'train'] as const;
export type GpuDuty = (typeof GPU_DUTIES)[number];

export interface GpuWorkerPlan {
  /** `gpu`, then `gpu-2` and so on. */
  readonly name: string;
  readonly does: GpuDuty;
  /** As `CUDA_VISIBLE_DEVICES` names it; absent if the worker uses whatever it finds. */
  readonly device?: string;
  /** Threads of each of TensorFlow's ops. */
  readonly threads: number;
}

export interface PoolMachine {
  /** As `CUDA_VISIBLE_DEVICES` names them. */
  readonly devices: readonly string[];
  readonly cores: number;
}

export const POOL_VARIABLE = 'LONGHAUL_GPU_WORKERS';
export const DUTY_VARIABLE = 'LONGHAUL_GPU_DOES';
const EXPECTED =
  `a whole number from 1 to 64, or what each worker does (${GPU_DUTIES.join(', ')}), ` + 'separated by commas';

function refuse(name: string, text: string, remedy: string): never {
  throw new UserInputError(name, text, remedy);
}

function dutyOf(name: string, text: string): GpuDuty {
  return (
    GPU_DUTIES.find((duty) => duty === text.trim()) ??
    refuse(name, text, `give ${name === POOL_VARIABLE ? EXPECTED : GPU_DUTIES.join(', ')}`)
  );
}

/** What each worker of the pool does; default: one worker per device. Errors: `UserInputError` with a remedy. */
export function readGpuPool(env: NodeJS.ProcessEnv, devices: readonly string[] = []): readonly GpuDuty[] {
  const text = env[POOL_VARIABLE];
  if (text === undefined || text === '')
    return Array.from({ length: Math.max(1, devices.length) }, () => 'both' as const);
  if (/^\d+$/.test(text.trim())) {
    const count = Number(text);
    if (count < 1 || count > 64) refuse(POOL_VARIABLE, text, `give ${EXPECTED}`);
    return Array.from({ length: count }, () => 'both' as const);
  }
  const pool = text.split(',').map((one) => dutyOf(POOL_VARIABLE, one));
  if (!pool.some((does) => does !== 'train'))
    refuse(POOL_VARIABLE, text, 'at least one worker must sample: give it generate or both');
  if (!pool.some((does) => does !== 'generate'))
    refuse(POOL_VARIABLE, text, 'at least one worker must train: give it train or both');
  return pool;
}

/** What this worker of a pool does. Errors: `UserInputError` that says what to give. */
export function readGpuDuty(env: NodeJS.ProcessEnv): GpuDuty {
  const text = env[DUTY_VARIABLE];
  return text === undefined || text === '' ? 'both' : dutyOf(DUTY_VARIABLE, text);
}

/** Errors: `UserInputError` if there are more workers than devices. */
export function planGpuPool(env: NodeJS.ProcessEnv, { devices, cores }: PoolMachine): GpuWorkerPlan[] {
  const pool = readGpuPool(env, devices);
  if (devices.length > 0 && pool.length > devices.length)
    refuse(
      POOL_VARIABLE,
      env[POOL_VARIABLE] ?? '',
      `each worker needs its own device, and there are ${devices.length}; set CUDA_VISIBLE_DEVICES= (empty) to ` +
        'use processors instead',
    );
  // Temporal, tools and graders need the other half.
  const threads = Math.max(1, Math.floor(Math.floor(cores / 2) / pool.length));
  return pool.map((does, i) => {
    const device = devices.length > 1 ? devices[i] : undefined;
    return { name: i === 0 ? 'gpu' : `gpu-${i + 1}`, does, ...(device === undefined ? {} : { device }), threads };
  });
}

/** Why the pool cannot train runs of this placement; `undefined` if it can. */
export function refusedPlacement(placement: TrainingPlacement, pool: readonly GpuDuty[]): string | undefined {
  if (placement === 'colocated' && !pool.every((does) => does !== 'generate'))
    return 'the pool has workers that only sample: give disaggregated';
  if (placement === 'colocated' && !pool.includes('both')) return 'no worker of the pool does both: give disaggregated';
  if (placement === 'disaggregated' && pool.length === 1)
    return `the pool's one worker does both: leave it out, or start more workers (${POOL_VARIABLE}=generate,train)`;
  return undefined;
}
