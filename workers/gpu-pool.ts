/**
 * The GPU workers of a machine: one process per device, each of which samples, trains or does both. Without devices,
 * workers that share the processors stand in. Pure: it is told the environment and the machine.
 */

import { UserInputError } from '../protocol/user-input-error.ts';
import type { TrainingPlacement } from '../protocol/run-config.ts';

export const GPU_DUTIES = ['both', 'generate', 'train'] as const;
export type GpuDuty = (typeof GPU_DUTIES)[number];

export interface GpuWorkerPlan {
  /** `gpu`, then `gpu-2` and so on. */
  readonly name: string;
  readonly does: GpuDuty;
  /** As `CUDA_VISIBLE_DEVICES` names it; absent where the worker takes what it finds. */
  readonly device?: string;
  /** For each of TensorFlow's ops. */
  readonly threads: number;
}

export interface PoolMachine {
  /** As `CUDA_VISIBLE_DEVICES` names them. */
  readonly devices: readonly string[];
  readonly cores: number;
}

export const POOL_VARIABLE = 'LONGHAUL_GPU_WORKERS';
export const DUTY_VARIABLE = 'LONGHAUL_GPU_DOES';
const EXPECTED = `a whole number from 1 to 64, or what each worker does (${GPU_DUTIES.join(', ')}), separated by commas`;

function refuse(name: string, text: string, remedy: string): never {
  throw new UserInputError(name, text, remedy);
}

function dutyOf(name: string, text: string): GpuDuty {
  return (
    GPU_DUTIES.find((duty) => duty === text.trim()) ??
    refuse(name, text, `give ${name === POOL_VARIABLE ? EXPECTED : GPU_DUTIES.join(', ')}`)
  );
}

/** What each worker of the pool does; by default there is one for each device. Errors: `UserInputError` that says what to give. */
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
    refuse(POOL_VARIABLE, text, 'one worker at least must sample: give generate or both');
  if (!pool.some((does) => does !== 'generate'))
    refuse(POOL_VARIABLE, text, 'one worker at least must train: give train or both');
  return pool;
}

/** What a worker that was started under a pool does. Errors: `UserInputError` that says what to give. */
export function readGpuDuty(env: NodeJS.ProcessEnv): GpuDuty {
  const text = env[DUTY_VARIABLE];
  return text === undefined || text === '' ? 'both' : dutyOf(DUTY_VARIABLE, text);
}

/** Errors: `UserInputError` where there are more workers than devices. */
export function planGpuPool(env: NodeJS.ProcessEnv, { devices, cores }: PoolMachine): GpuWorkerPlan[] {
  const pool = readGpuPool(env, devices);
  if (devices.length > 0 && pool.length > devices.length)
    refuse(
      POOL_VARIABLE,
      env[POOL_VARIABLE] ?? '',
      `each worker has a device of its own, and there are ${devices.length}; CUDA_VISIBLE_DEVICES= takes processors instead`,
    );
  // Temporal, tools and graders need the other half.
  const threads = Math.max(1, Math.floor(Math.floor(cores / 2) / pool.length));
  return pool.map((does, i) => {
    const device = devices.length > 1 ? devices[i] : undefined;
    return { name: i === 0 ? 'gpu' : `gpu-${i + 1}`, does, ...(device === undefined ? {} : { device }), threads };
  });
}

/** Why runs of this placement cannot be trained by the pool; `undefined` where they can. */
export function refusedPlacement(placement: TrainingPlacement, pool: readonly GpuDuty[]): string | undefined {
  if (placement === 'colocated' && !pool.every((does) => does !== 'generate'))
    return 'the pool has workers that only sample: give disaggregated';
  if (placement === 'colocated' && !pool.includes('both')) return 'no worker of the pool does both: give disaggregated';
  if (placement === 'disaggregated' && pool.length === 1)
    return `one worker does both: leave it out, or start more (${POOL_VARIABLE}=generate,train)`;
  return undefined;
}
