/**
 * The embedded engine by the functions of the seam. Workers call it over its thread, where an update stays beside its
 * weights; both are the same sessions and the same sampler.
 */

import path from 'node:path';
import { fileUri, pathOf } from '../../protocol/policy-uri.ts';
import type { ShardSession } from '../backend.ts';
import type { BackendDefinition, StateToSave } from '../backends/definition.ts';
import { EMBEDDED } from '../backends/registry.ts';
import { fingerprintOf } from '../checkpoints/policy-files.ts';
import { describePolicy } from '../model/describe-policy.ts';
import type { Sampler } from '../sampler/sampler.ts';
import type { Datum } from '../update-request.ts';
import type { EmbeddedTrainer } from './embedded-trainer.ts';

/** Tokens of one pass of `forward`. */
const FORWARD_TOKENS = 8192;

export interface EmbeddedPlaces {
  readonly sampler: Pick<Sampler, 'generate'>;
  readonly trainer: EmbeddedTrainer;
  /** The folder of saved states. */
  readonly states: string;
}

export function embeddedDefinition({ sampler, trainer, states }: EmbeddedPlaces): BackendDefinition<ShardSession> {
  const placeOf = ({ name }: StateToSave): string => path.join(states, name);
  return {
    ...EMBEDDED,
    async describe(uri) {
      const dir = pathOf(uri);
      const { parameters, vocabulary } = await describePolicy(dir);
      return { parameters, vocabulary, tokenizer: uri, digest: await fingerprintOf(dir) };
    },
    async sample({ uri, rollout, ...request }, signal) {
      const policy = { dir: pathOf(uri), version: 0 };
      const { finishReason: finish, ...answer } = await sampler.generate(
        { policy, cacheKey: rollout, ...request },
        signal,
      );
      return { ...answer, finish };
    },
    open: ({ uri, lora, optimizer }) => trainer.loadState({ dir: pathOf(uri), lora, optimizer }),
    async forward(session, sequences) {
      const data: Datum[] = sequences.map((sequence) => ({ ...sequence, logprobs: [] }));
      const scores = await session.forward(data, { microBatchTokens: FORWARD_TOKENS });
      return data.map((datum) => scores.get(datum) ?? []);
    },
    async forwardBackward(session, pass) {
      const { logprobs, entropies } = await session.forwardBackward(pass as never);
      return { logprobs, ...(entropies && { entropies }) };
    },
    async optimStep(session, settings) {
      return { gradNorm: await session.optimStep(settings) };
    },
    async saveState(session, state) {
      const dir = placeOf(state);
      const { sha256 } = await session.saveState({ dir, version: state.version, metrics: {} });
      return { uri: fileUri(dir), sha256 };
    },
    async saveForSampler(session, state) {
      const dir = placeOf(state);
      await session.publish({ dir, version: state.version });
      return { uri: fileUri(dir) };
    },
    close: (session) => session.release(),
  };
}
