/**
 * Weights on SGLang: whole ones by `/update_weights_from_disk`, which sets `weight_version` with them; adapters by
 * `/load_lora_adapter` under a name that has the version.
 *
 * Source: sglang 0.5.23, srt/entrypoints/http_server.py and srt/managers/io_struct.py. An answer's `meta_info` has
 * `weight_version`, the server's when the answer was complete, and `weight_versions`, spans of its tokens (srt/utils/
 * weight_versions.py): both in every complete answer, also of one version.
 */

import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { adapterName, type Checkpoint, checkUnchanged, outdated, versionIn } from './checkpoint.ts';
import {
  checkLabels,
  type PushedWeights,
  refuseBackward,
  refuseOtherBase,
  spans,
  checkedAnswer,
  UNKNOWN,
  WrongVersion,
} from './pushed-weights.ts';
import type { SamplerServer } from './sampler-server.ts';

const REMEDY = 'use SGLang 0.5 or later';
const ADAPTER_REMEDY = 'start SGLang with --enable-lora, and with --max-loaded-loras of at least 4';
const info = z.object({ weight_version: z.string() });
const models = z.object({ data: z.array(z.object({ id: z.string() })) });
const outcome = z.object({ success: z.boolean(), message: z.string().nullish(), error_message: z.string().nullish() });
const generated = z.object({ meta_info: z.object({ weight_version: z.string(), weight_versions: spans.min(1) }) });
const ABANDON_MS = 5000;

async function namesOf(server: SamplerServer, signal: AbortSignal): Promise<string[]> {
  const listed = await server.get('v1/models', signal);
  return checkedAnswer(models, listed, '/v1/models', REMEDY).data.map(({ id }) => id);
}

/** Errors: `EndpointError` of kind `bad-request` with the server's words. */
function succeeded(answer: unknown, what: string, remedy: string): void {
  const { success, message, error_message: error } = checkedAnswer(outcome, answer, what, remedy);
  if (!success) throw new EndpointError('bad-request', `${what}: ${error ?? message ?? 'no success'}. ${remedy}`);
}

async function pushAdapter(server: SamplerServer, checkpoint: Checkpoint, signal: AbortSignal): Promise<void> {
  const name = adapterName(checkpoint);
  for (const one of outdated(await namesOf(server, signal), checkpoint))
    await server.post('unload_lora_adapter', { lora_name: one }, signal).catch(() => signal.throwIfAborted());
  try {
    const body = { lora_name: name, lora_path: checkpoint.folder };
    succeeded(await server.post('load_lora_adapter', body, signal), '/load_lora_adapter', ADAPTER_REMEDY);
  } catch (error) {
    // Another process was first, or this one before it was killed.
    if (!(await namesOf(server, signal)).includes(name)) throw error;
  }
  await verified(checkpoint, server, 'unload_lora_adapter', { lora_name: name });
}

/** If the files changed meanwhile, what the server has is not what its label says: it is taken back. */
async function verified(checkpoint: Checkpoint, server: SamplerServer, path: string, undo: object): Promise<void> {
  try {
    await checkUnchanged(checkpoint);
  } catch (error) {
    await server.post(path, undo, AbortSignal.timeout(ABANDON_MS)).catch(() => undefined);
    throw error;
  }
}

export const sglangWeights: PushedWeights = {
  async look(server, checkpoint, signal) {
    const { weight_version: has } = checkedAnswer(info, await server.get('model_info', signal), '/model_info', REMEDY);
    if (checkpoint.isAdapter) {
      refuseOtherBase(has, checkpoint, server);
      return (await namesOf(server, signal)).includes(adapterName(checkpoint))
        ? { is: 'ready' }
        : { is: 'behind', has: 'no such adapter' };
    }
    refuseBackward(has, checkpoint, server);
    return has === checkpoint.label ? { is: 'ready' } : { is: 'behind', has };
  },

  async push(server, checkpoint, signal) {
    if (checkpoint.isAdapter) return pushAdapter(server, checkpoint, signal);
    const body = { model_path: checkpoint.folder, weight_version: checkpoint.label, flush_cache: true };
    const remedy = 'give a folder that the server can read (at=), of the model that it serves';
    succeeded(await server.post('update_weights_from_disk', body, signal), '/update_weights_from_disk', remedy);
    await verified(checkpoint, server, 'update_weight_version', { new_version: UNKNOWN, abort_all_requests: false });
  },

  request: (checkpoint) => (checkpoint.isAdapter ? { lora_path: adapterName(checkpoint) } : {}),

  check(answer, checkpoint) {
    const { meta_info: meta } = checkedAnswer(generated, answer, 'the answer', REMEDY);
    const labels = [meta.weight_version, ...meta.weight_versions];
    if (!checkpoint.isAdapter) return checkLabels(labels, checkpoint);
    // An adapter is of the base model: under pushed weights it samples something else.
    const pushed = labels.find((label) => versionIn(label) !== undefined);
    if (pushed !== undefined) throw new WrongVersion(`the adapter was sampled on the pushed weights ${pushed}`);
  },
};
