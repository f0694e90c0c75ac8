/** Messages between the engine's thread and its owner. Every request has an id and gets exactly one final answer. */

import type { PlannedUpdate, PlanRequest, RoundRequest, ShardRequest, UpdateRequest } from '../update-request.ts';
import type { GenerateRequest, GenerateResult } from '../generate-request.ts';
import type { EngineKinds } from '../../protocol/engine.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { PackedData } from './packed-data.ts';
import type { AdapterAnswer, AdapterCall } from '../tenants/adapter-calls.ts';
import type { SamplerOptions, SamplerStats } from '../sampler/sampler.ts';

export type ThreadOptions = Omit<SamplerOptions, 'load' | 'loadAdapter'>;

export interface EngineStats extends SamplerStats {
  readonly updates: number;
  readonly updateSeconds: number;
}

/** A request with packed data, whose buffers move to the thread. */
type Packed<Request extends UpdateRequest> = Omit<Request, 'data'> & { readonly data: PackedData };

/** Work during which the thread does not sample. */
export type TrainingWork =
  | { readonly what: 'update'; readonly request: Packed<UpdateRequest> }
  | { readonly what: 'planUpdate'; readonly request: Packed<PlanRequest> }
  | { readonly what: 'forwardBackward'; readonly request: ShardRequest }
  | { readonly what: 'optimStep'; readonly request: RoundRequest }
  /** A call to the adapters of the base in `base`. */
  | { readonly what: 'tenant'; readonly base: string; readonly call: AdapterCall };

export type Trained = UpdateMetrics | PlannedUpdate | AdapterAnswer | undefined;

export type ToThread =
  | { readonly kind: 'generate'; readonly id: number; readonly request: GenerateRequest }
  | { readonly kind: 'train'; readonly id: number; readonly work: TrainingWork }
  | { readonly kind: 'stats'; readonly id: number }
  | { readonly kind: 'describe'; readonly id: number }
  | { readonly kind: 'abort'; readonly id: number }
  | { readonly kind: 'close' };

/** An error as data: between threads an error loses its class, but not the class's name and the fields. */
export interface ErrorData {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
}

export type FromThread =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'done';
      readonly id: number;
      readonly result: GenerateResult | Trained | EngineStats | EngineKinds;
    }
  | { readonly kind: 'failed'; readonly id: number; readonly error: ErrorData }
  | { readonly kind: 'cost'; readonly id: number; readonly cost: GenerateCost }
  | { readonly kind: 'progress'; readonly id: number; readonly fraction: number };

const isPlain = (value: unknown): boolean =>
  value === null ||
  ['string', 'number', 'boolean', 'undefined'].includes(typeof value) ||
  (Array.isArray(value) && value.every(isPlain));

export function errorData(error: unknown): ErrorData {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: undefined, fields: {} };
  const fields = Object.fromEntries(Object.entries(error).filter(([key, value]) => key !== 'name' && isPlain(value)));
  return { name: error.name, message: error.message, stack: error.stack, fields };
}

/**
 * Restores an error of the engine's thread: `name` is the name of its class there, and it has the same fields. Only a
 * `UserInputError` has its class again.
 */
export function errorFrom({ name, message, stack, fields }: ErrorData): Error {
  const isInput = name === 'UserInputError';
  const error = isInput
    ? new UserInputError(String(fields['field']), '', String(fields['remedy']))
    : new Error(message);
  if (isInput) error.message = message;
  else Object.defineProperty(error, 'name', { value: name });
  if (stack !== undefined) error.stack = stack;
  return Object.assign(error, fields);
}
