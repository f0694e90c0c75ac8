/** Several answers to one prompt: each has noise of its own, and the prompt is computed once. */

import type { Engine, GenerateRequest, GenerateResult } from '../engine.ts';

/** Answer `i` is that of the request with `/i` after its noise key and its cache key, alone or among others. */
export function sampleMany(
  engine: Pick<Engine, 'generate'>,
  request: GenerateRequest,
  count: number,
  signal?: AbortSignal,
): Promise<GenerateResult[]> {
  const requests = Array.from({ length: count }, (_, i) => ({
    ...request,
    cacheKey: `${request.cacheKey}/${i}`,
    noiseKey: `${request.noiseKey}/${i}`,
  }));
  return Promise.all(requests.map((one) => engine.generate(one, signal)));
}
