/** Models of the Tinker API: made, loaded, trained, unloaded. Each is a lane of operations that run in their order. */

import type { z } from 'zod';
import type {
  adamParams,
  createModelBody,
  loadWeightsBody,
  loraConfig,
  optimStepBody,
} from '../../endpoints/tinker/wire/bodies.ts';
import type { PassRequest } from '../../endpoints/tinker/wire/pass-request.ts';
import type { AdamParameters, AdapterSettings } from '../../protocol/tinker.ts';
import type { TinkerModel } from '../../store/tinker/journal.ts';
import { ApiError } from '../http/api-error.ts';
import { parsePath } from './paths.ts';
import { readPass } from './read-pass.ts';
import { baseNamed, type Call, checkpointOf, modelOf, openSession, quoted } from './service.ts';
import { repeated, seqOf, submit } from './submit.ts';

/** As Thinking Machines' own adapters. */
const ALPHA = 32;
const MOST_RANK = 1024;

const refuse = (message: string): never => {
  throw new ApiError(400, message);
};

function adapterOf(config: z.output<typeof loraConfig> | undefined, drawSeed: () => number): AdapterSettings {
  if (config === undefined) return refuse('lora_config is missing: models here are LoRA adapters; give it with a rank');
  const { rank, seed } = config;
  if (!Number.isInteger(rank) || rank < 1 || rank > MOST_RANK)
    refuse(`lora_config.rank must be positive: ${rank} cannot be used; give 1 to ${MOST_RANK}`);
  if (!Number.isInteger(Math.log2(rank))) refuse(`lora_config.rank must be a power of two: ${rank} cannot be used`);
  if (seed !== undefined && !Number.isSafeInteger(seed))
    refuse(`lora_config.seed: ${seed} cannot be used; give a whole number`);
  const [attention, mlp, unembed] = [config.train_attn, config.train_mlp, config.train_unembed];
  if (!attention && !mlp && !unembed)
    refuse('lora_config trains nothing; set train_attn, train_mlp or train_unembed to true');
  return { rank, alpha: ALPHA, seed: seed ?? drawSeed(), attention, mlp, unembed };
}

function checkOptimizer(config: { readonly type: string } | undefined): void {
  if (config !== undefined && config.type !== 'adamw')
    refuse(`optimizer_config.type: ${quoted(config.type)} is not supported here; give adamw`);
}

async function checkModels(call: Call, id: string): Promise<void> {
  const { journal, quotas } = call.service;
  if (await journal.model(id)) return;
  const { models } = await journal.counts(call.tenant);
  if (models >= quotas.models)
    refuse(`this API key has ${models} models, as many as it may have; unload or delete some`);
}

export const modelId = (session: string, seq: number | string): string => `${session}:train:${seqOf(seq)}`;

type NewModel = Pick<TinkerModel, 'id' | 'session' | 'baseModel' | 'adapter'> & { readonly userMetadata: unknown };

function putModel({ service, tenant }: Call, { userMetadata, ...model }: NewModel): Promise<TinkerModel> {
  const at = service.now().toISOString();
  const metadata = userMetadata === undefined ? {} : { userMetadata };
  return service.journal.putModel({ ...model, ...metadata, tenant, createdAt: at, usedAt: at });
}

export async function createModel(call: Call, body: z.output<typeof createModelBody>): Promise<object> {
  const { service } = call;
  const lane = { lane: modelId(body.session_id, body.model_seq_id), session: body.session_id, seq: 0 };
  const known = await repeated(call, lane);
  if (known !== undefined) return { request_id: known.requestId, model_id: lane.lane };
  const base = baseNamed(service, body.base_model);
  checkOptimizer(body.optimizer_config);
  const asked = adapterOf(body.lora_config, service.drawSeed);
  const { id: session } = await openSession(call, body.session_id);
  const id = modelId(session, body.model_seq_id);
  await checkModels(call, id);
  // The first one counts, so that a repeated request has the same seed.
  const model = await putModel(call, {
    id,
    session,
    baseModel: base.name,
    adapter: asked,
    userMetadata: body.user_metadata,
  });
  const { requestId } = await submit(call, {
    lane: id,
    session,
    seq: 0,
    operation: { kind: 'create_model', baseModel: model.baseModel, adapter: model.adapter },
  });
  return { request_id: requestId, model_id: id };
}

/** The lane of a load, and its number there. Errors: `ApiError` 400, 404. */
async function laneOfLoad(call: Call, body: z.output<typeof loadWeightsBody>) {
  const { model_id: known, session_id, model_seq_id, seq_id } = body;
  if (known !== undefined && session_id === undefined) {
    const { session } = await modelOf(call, known);
    return { lane: known, session, seq: laneSeq(seq_id) };
  }
  if (session_id === undefined || model_seq_id === undefined)
    return refuse('session_id and model_seq_id, or model_id and seq_id, are missing; give one pair');
  return { lane: modelId(session_id, model_seq_id), session: session_id, seq: 0 };
}

/** Into a new model (`session_id`, `model_seq_id`), or into one that exists (`model_id`). */
export async function loadWeights(call: Call, body: z.output<typeof loadWeightsBody>): Promise<object> {
  const { path, optimizer } = body;
  const lane = await laneOfLoad(call, body);
  const before = await repeated(call, lane);
  if (before !== undefined) return { request_id: before.requestId, model_id: lane.lane };
  const { run, folder } = parsePath(path);
  checkOptimizer(body.optimizer_config);
  if (optimizer && folder === 'sampler_weights')
    refuse(`path: ${quoted(path)} has no optimizer state; give a path of weights, or load without the optimizer`);
  const checkpoint = await checkpointOf(call, path, { orPublic: true });
  const origin = await call.service.journal.model(run);
  if (!origin) return refuse(`path: the training run of ${quoted(path)} is not known`);
  if (body.base_model !== undefined && baseNamed(call.service, body.base_model).name !== origin.baseModel)
    refuse(`base_model: ${quoted(body.base_model)} is not the one of the checkpoint; give ${origin.baseModel}`);
  const operation = { kind: 'load_weights', path: checkpoint.path, optimizer } as const;
  if (body.session_id === undefined) {
    const model = await modelOf(call, lane.lane);
    const { rank, attention, mlp, unembed } = origin.adapter;
    const own = model.adapter;
    if (own.rank !== rank || own.attention !== attention || own.mlp !== mlp || own.unembed !== unembed)
      refuse(
        `path: the adapter of ${quoted(path)} has rank ${rank} and other layers than the model; ` +
          'create a model from the checkpoint',
      );
    const { requestId } = await submit(call, { ...lane, operation });
    return { request_id: requestId, model_id: model.id };
  }
  const { lane: id } = lane;
  const { id: session } = await openSession(call, lane.session);
  await checkModels(call, id);
  const { baseModel, adapter } = origin;
  await putModel(call, { id, session, baseModel, adapter, userMetadata: body.user_metadata });
  const { requestId } = await submit(call, { ...lane, operation });
  return { request_id: requestId, model_id: id };
}

export async function getInfo(call: Call, id: string): Promise<object> {
  const { baseModel, adapter } = await modelOf(call, id);
  const base = baseNamed(call.service, baseModel);
  return {
    type: 'get_info',
    model_id: id,
    model_data: { arch: base.architecture, model_name: base.name, tokenizer_id: base.dir },
    model_name: base.name,
    optimizer_config: { type: 'adamw' },
    is_lora: true,
    lora_rank: adapter.rank,
  };
}

/** Numbers of operations begin at 1: number 0 makes the model. Errors: `ApiError` 400. */
function laneSeq(seq: number | string | undefined): number | string | undefined {
  if (seq === undefined || Number(seq) >= 1) return seq;
  return refuse(`seq_id: ${seq} cannot be used; number the requests of a model from 1`);
}

/** `read`: the request, once the model's base is known. */
export async function pass(
  call: Call,
  id: string,
  read: (base: ReturnType<typeof baseNamed>) => PassRequest,
): Promise<object> {
  const model = await modelOf(call, id);
  const base = baseNamed(call.service, model.baseModel);
  const request = read(base);
  const operation = { kind: 'pass', pass: readPass(request, base) } as const;
  // The older JSON form may have no number; in protobuf it is then 0.
  const seq = Number.isNaN(request.seq) ? undefined : laneSeq(request.seq);
  const { requestId } = await submit(call, { lane: id, session: model.session, seq, operation });
  return { request_id: requestId, model_id: id };
}

function adamOf(given: z.output<typeof adamParams>): AdamParameters {
  const check = (name: keyof typeof given, isGood: (value: number) => boolean, remedy: string) => {
    const value = given[name];
    return isGood(value) ? value : refuse(`adam_params.${name}: ${value} cannot be used; give ${remedy}`);
  };
  const atLeastZero = (value: number) => value >= 0;
  const decay = (value: number) => value >= 0 && value < 1;
  return {
    learningRate: check('learning_rate', atLeastZero, 'at least 0'),
    beta1: check('beta1', decay, 'at least 0 and less than 1'),
    beta2: check('beta2', decay, 'at least 0 and less than 1'),
    eps: check('eps', atLeastZero, 'at least 0'),
    weightDecay: check('weight_decay', atLeastZero, 'at least 0'),
    gradClipNorm: check('grad_clip_norm', atLeastZero, 'at least 0; 0 does not clip'),
  };
}

export async function optimStep(call: Call, body: z.output<typeof optimStepBody>): Promise<object> {
  if (body.optimizer_params !== undefined)
    refuse(`optimizer_params: ${quoted(body.optimizer_params.type)} is not supported here; give adam_params`);
  if (body.adam_params === undefined) return refuse('adam_params is missing; give it');
  const adam = adamOf(body.adam_params);
  const { id, session } = await modelOf(call, body.model_id);
  const seq = laneSeq(body.seq_id);
  const { requestId } = await submit(call, { lane: id, session, seq, operation: { kind: 'optim_step', adam } });
  return { request_id: requestId, model_id: id };
}

export async function unloadModel(call: Call, id: string): Promise<object> {
  const { session } = await modelOf(call, id);
  const operation = { kind: 'unload_model' } as const;
  const { requestId } = await submit(call, { lane: id, session, seq: undefined, operation, alsoFinished: true });
  return { request_id: requestId, model_id: id };
}
