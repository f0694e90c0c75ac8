/**
 * The engine samples from a policy and trains it. Sampling is a pure function of (weights, tokens, noise key, position)
 * and does not depend on concurrent requests. An update writes a new version and changes no old one.
 */

import type { UpdateRequest, PlanRequest, PlannedUpdate, RoundRequest, ShardRequest } from './update-request.ts';
import type { GenerateRequest, GenerateResult } from './generate-request.ts';
import type { GenerateCost } from '../protocol/sampling.ts';
import type { UpdateMetrics } from '../protocol/algorithm.ts';

export interface Engine {
  /**
   * `onCost` receives the cost of a successful call before its result. An engine that does not know the cost never
   * calls it.
   */
  generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult>;
  update(request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics>;
  close(): Promise<void>;
}

/**
 * An engine that shares updates with others: a plan, then for each step its shards, in any order on any engine, then
 * the step.
 */
export interface PoolEngine extends Engine {
  planUpdate(request: PlanRequest): Promise<PlannedUpdate>;
  forwardBackward(request: ShardRequest, onProgress?: (fraction: number) => void): Promise<void>;
  optimStep(request: RoundRequest, onProgress?: (fraction: number) => void): Promise<void>;
}
