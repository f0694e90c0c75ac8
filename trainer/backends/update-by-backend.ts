/**
 * An update by a defined backend: from a saved state to a saved state. A session that fails or is lost leaves nothing
 * that is used; the next attempt opens the last saved state again, and saves under a name of its own.
 */

import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import { prepareUpdate } from '../training/prepare-update.ts';
import { trainPolicy } from '../training/train-policy.ts';
import type { UpdateRequest } from '../update-request.ts';
import type { BackendCalls } from './backend-calls.ts';

export interface BackendUpdate extends Pick<UpdateRequest, 'toVersion' | 'data' | 'algorithm' | 'lora'> {
  readonly from: PolicyRef;
  /** The reference policy, for KL. */
  readonly reference?: string;
  /** The name of what is saved. No other attempt has it. */
  readonly name: string;
}

export interface BackendUpdated {
  readonly policy: PolicyRef;
  readonly sha256: string | null;
  readonly metrics: Omit<UpdateMetrics, 'sha256'>;
}

/**
 * The modules of `algorithm` must be imported. Errors: those of `BackendCalls` and `prepareUpdate`.
 */
export async function updateByBackend(
  calls: BackendCalls,
  update: BackendUpdate,
  signal: AbortSignal,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<BackendUpdated> {
  const { from, reference, lora, algorithm, data, toVersion: version, name } = update;
  const start = from.state ?? from.uri;
  const request = {
    fromDir: start,
    toDir: name,
    toVersion: version,
    data,
    algorithm,
    ...(reference !== undefined && { referenceDir: reference }),
  };
  const session = await calls.open({ uri: start, ...(lora && { lora }), optimizer: true }, signal);
  try {
    const prepared = await prepareUpdate(request, {
      session,
      trainer: {
        score: async (uri, scored) => {
          const other = await calls.open({ uri, optimizer: false }, signal);
          return other.forward(scored).finally(() => other.release());
        },
      },
    });
    const tally = await trainPolicy(session, prepared, request, onProgress);
    const { uri, sha256, sampled } = await session.save({ name, version });
    return {
      policy: { uri: sampled, version, ...(uri !== sampled && { state: uri }) },
      sha256,
      metrics: tally.metrics(prepared.tokens, prepared.sequences, algorithm, prepared.metrics),
    };
  } finally {
    await session.release();
  }
}
