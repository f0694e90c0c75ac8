/** The embedded engine as a backend. Its policies are folders, which are complete or absent. */

import { existsSync } from 'node:fs';
import type { ContextOf } from '../../config/policy-context.ts';
import { cacheModulesOf } from '../../modules/import-bundle.ts';
import { retryWhileDiskUnavailable } from '../../store/disk-patience.ts';
import { carryOver } from '../../trainer/checkpoints/carry-over.ts';
import { isMadeFrom, readCheckpointRecord } from '../../trainer/checkpoints/checkpoint.ts';
import { intact } from '../../trainer/checkpoints/verified-checkpoint.ts';
import type { Engine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import { fileUri, pathOf } from '../../protocol/policy-uri.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { PolicyTokenizer } from '../generate/sample-ids.ts';
import { roomForCheckpoint } from '../update/check-disk-space.ts';
import type { TrainingData } from '../update/training-data.ts';
import { checkPlace, clearOther } from '../update/update-input.ts';
import { nothingLearned, teaches, updateRequestOf } from '../update/update-request.ts';
import type { Backend, Backends, UpdateContext, UpdateMade } from './backend.ts';

/** The engine, and the readers of its folders. They read the folder's current files. */
export interface EmbeddedParts {
  readonly engine: Engine;
  readonly tokenizerOf: (policyDir: string) => Promise<PolicyTokenizer>;
  /** `fingerprintOf` the policy in a directory. */
  readonly digestOf: (policyDir: string) => Promise<string>;
  /** Absent: the engine alone knows where the context ends. */
  readonly contextOf?: ContextOf;
}

async function untaught(request: UpdateRequest): Promise<UpdateMetrics> {
  const { fromDir, toDir, toVersion, algorithm, critic, lora, input } = request;
  const { sha256 } = await carryOver(fromDir, toDir, toVersion, lora, critic, input);
  return { ...nothingLearned(algorithm), sha256 };
}

/** Errors: an `Error` if the activities before this one did not run, or their result was removed. */
async function checkMade({ step, shards }: UpdateInput, { toDir, input }: UpdateRequest): Promise<void> {
  const there = await readCheckpointRecord(toDir);
  if (there !== undefined && isMadeFrom(there, input)) return;
  throw new Error(
    `The update of step ${step} in ${shards} shards is not in ${toDir}: restore that folder, ` +
      'or start a run with another name',
  );
}

async function update(
  engine: Engine,
  input: UpdateInput,
  data: TrainingData,
  { store, progress, patience }: UpdateContext,
): Promise<UpdateMade> {
  const request = await updateRequestOf(input, data, store);
  const { toDir, toVersion: version } = request;
  await cacheModulesOf(input.run, store);
  const taught = teaches(data);
  const { sha256, ...metrics } = await retryWhileDiskUnavailable(toDir, patience, async () => {
    await clearOther(input, request, store);
    if (taught && input.shards !== undefined) await checkMade(input, request);
    else await roomForCheckpoint(request);
    return taught ? engine.update(request, progress) : untaught(request);
  });
  return { policy: { uri: fileUri(toDir), version }, sha256, metrics, learningRate: request.algorithm.learningRate };
}

export function embeddedBackend({ engine, tokenizerOf, digestOf, contextOf }: EmbeddedParts): Backend {
  const reading = <T>(uri: string, read: (dir: string) => Promise<T>): Promise<T> => {
    const dir = pathOf(uri);
    return intact(dir, () => read(dir));
  };
  return {
    digestOf: (uri) => reading(uri, digestOf),
    tokenizerOf: (uri) => reading(uri, tokenizerOf),
    contextOf: async (uri) => (await contextOf?.(pathOf(uri)))?.tokens,
    hasPolicy: (uri) => existsSync(pathOf(uri)),
    async sample({ policy: { uri, version, digest }, rollout, noiseKey, priority, ...call }, signal, onCost) {
      const policy = { dir: pathOf(uri), version, digest };
      const request = { policy, cacheKey: rollout, noiseKey, ...call, ...(priority !== undefined && { priority }) };
      const { finishReason, tokens, logprobs, stopText } = await engine.generate(request, signal, onCost);
      return { tokens, logprobs, finish: finishReason, ...(stopText !== undefined && { stopText }) };
    },
    update: (input, data, context) => update(engine, input, data, context),
    checkRecorded: checkPlace,
  };
}

/** The embedded engine alone: for programs that run no user's modules. */
export const embeddedOnly = (parts: EmbeddedParts) => ({
  tokenizerOf: parts.tokenizerOf,
  backends: { of: () => Promise.resolve(embeddedBackend(parts)) } satisfies Backends,
});
