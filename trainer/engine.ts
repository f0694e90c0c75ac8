/**
 * The engine: samples from a policy and trains it. Sampling is a pure function of (weights, tokens, noise key,
 * position), whatever runs beside it; an update writes a new version and changes no old one.
 */

import type { UpdateRequest, PlanRequest, PlannedUpdate, RoundRequest, ShardRequest } from './update-request.ts';
import type { GenerateRequest, GenerateResult } from './generate-request.ts';
import type { GenerateCost } from '../protocol/sampling.ts';
import type { UpdateMetrics } from '../protocol/algorithm.ts';

export interface Engine {
  /** `onCost` hears of a call that succeeds, before its result is there; an engine that does not know tells nothing. */
  generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult>;
  update(request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics>;
  close(): Promise<void>;
}

/** An engine that shares updates with others: a plan, then for each step its shards, in any order and anywhere, and the step. */
export interface PoolEngine extends Engine {
  planUpdate(request: PlanRequest): Promise<PlannedUpdate>;
  forwardBackward(request: ShardRequest, onProgress?: (fraction: number) => void): Promise<void>;
  optimStep(request: RoundRequest, onProgress?: (fraction: number) => void): Promise<void>;
}
