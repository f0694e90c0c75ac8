/**
 * Checkpoints of the Tinker API: saved, listed, shared, given a lifetime, copied, deleted; and the runs they are of.
 */

import type { z } from 'zod';
import {
  type copyBody,
  loadWeightsBody,
  type saveForSamplerBody,
  type saveWeightsBody,
} from '../../endpoints/tinker/wire/bodies.ts';
import type { TinkerCheckpoint, TinkerModel } from '../../store/tinker/journal.ts';
import { ApiError } from '../http/api-error.ts';
import { loadWeights, modelId } from './models.ts';
import { checkName, expiryOf, numberOfUnnamed, parsePath, pathTo, UNNAMED_TTL, unnamed } from './paths.ts';
import { samplerId } from './samplers.ts';
import { type Call, checkpointOf, modelOf, type Page, quoted, textsOf } from './service.ts';
import { repeated, seqOf, submit } from './submit.ts';

async function checkBytes({ service, tenant }: Call): Promise<void> {
  const { checkpointBytes } = await service.journal.counts(tenant);
  if (checkpointBytes >= service.quotas.checkpointBytes)
    throw new ApiError(
      400,
      `this API key has checkpoints of ${checkpointBytes} bytes, as many as it may have; delete some`,
    );
}

const metadataOf = (metadata: unknown) => (metadata === undefined ? {} : { userMetadata: metadata });

export async function saveWeights(call: Call, body: z.output<typeof saveWeightsBody>): Promise<object> {
  const name = checkName(body.path);
  const expiresAt = expiryOf(body.ttl_seconds, call.service.now());
  const { id, session } = await modelOf(call, body.model_id);
  const { requestId } = await submit(call, {
    lane: id,
    session,
    seq: body.seq_id,
    check: () => checkBytes(call),
    operation: {
      kind: 'save_weights',
      path: pathTo({ run: id, folder: 'weights', name }),
      what: 'training',
      overwrite: body.overwrite,
      ...(expiresAt === undefined ? {} : { expiresAt }),
      ...metadataOf(body.user_metadata),
    },
  });
  return { request_id: requestId, model_id: id };
}

/** With a name, or, without one, with the sampler that samples from it: then it is not listed, and expires. */
export async function saveForSampler(call: Call, body: z.output<typeof saveForSamplerBody>): Promise<object> {
  const { sampling_session_seq_id: number } = body;
  if (body.path !== undefined && number !== undefined)
    throw new ApiError(400, 'path and sampling_session_seq_id exclude each other; give one');
  if (body.path === undefined && number === undefined)
    throw new ApiError(400, 'path and sampling_session_seq_id are missing; give one of them');
  const { journal, now } = call.service;
  const { id, session, baseModel } = await modelOf(call, body.model_id);
  const name = number === undefined ? checkName(body.path) : unnamed(seqOf(number));
  const path = pathTo({ run: id, folder: 'sampler_weights', name });
  const expiresAt = expiryOf(body.ttl_seconds ?? (number === undefined ? undefined : UNNAMED_TTL), now());
  if (number !== undefined) {
    const asked = { id: samplerId(session, number), session, tenant: call.tenant, baseModel, path };
    const sampler = await journal.putSampler(asked);
    if (sampler.path !== path)
      throw new ApiError(400, 'sampling_session_seq_id: another sampler has this number; give the next one');
  }
  const { requestId } = await submit(call, {
    lane: id,
    session,
    seq: body.seq_id,
    check: () => checkBytes(call),
    operation: {
      kind: 'save_weights',
      path,
      what: 'sampler',
      overwrite: false,
      ...(expiresAt === undefined ? {} : { expiresAt }),
      ...metadataOf(body.user_metadata),
    },
  });
  return { request_id: requestId, model_id: id };
}

/** Those with names that have not expired, the oldest first. */
export async function checkpointsOf({ service, tenant }: Call, run?: string): Promise<readonly TinkerCheckpoint[]> {
  const now = service.now().getTime();
  const all = await service.journal.checkpoints(tenant, run);
  return all.filter(
    ({ path, expiresAt }) =>
      numberOfUnnamed(parsePath(path).name) === undefined && (expiresAt === undefined || Date.parse(expiresAt) > now),
  );
}

function shown(checkpoint: TinkerCheckpoint): object {
  const { folder, name } = parsePath(checkpoint.path);
  return {
    checkpoint_id: `${folder}/${name}`,
    checkpoint_type: checkpoint.kind,
    time: checkpoint.createdAt,
    tinker_path: checkpoint.path,
    size_bytes: checkpoint.bytes,
    public: checkpoint.public,
    user_metadata: textsOf(checkpoint.userMetadata),
    expires_at: checkpoint.expiresAt ?? null,
  };
}

export async function listOfRun(call: Call, run: string): Promise<object> {
  await modelOf(call, run);
  return { checkpoints: (await checkpointsOf(call, run)).map(shown) };
}

const cut = <T>(all: readonly T[], { offset, limit }: Page) => ({
  page: all.slice(offset, offset + limit),
  cursor: { offset, limit, total_count: all.length },
});

export async function listAll(call: Call, page: Page): Promise<object> {
  const { page: some, cursor } = cut((await checkpointsOf(call)).toReversed(), page);
  return { checkpoints: some.map(shown), cursor };
}

async function runOf(call: Call, model: TinkerModel): Promise<object> {
  const checkpoints = await checkpointsOf(call, model.id);
  const last = (kind: TinkerCheckpoint['kind']) => {
    const found = checkpoints.findLast((checkpoint) => checkpoint.kind === kind);
    return found ? shown(found) : null;
  };
  return {
    training_run_id: model.id,
    base_model: model.baseModel,
    model_owner: model.tenant,
    is_lora: true,
    corrupted: false,
    lora_rank: model.adapter.rank,
    last_request_time: model.usedAt,
    last_checkpoint: last('training'),
    last_sampler_checkpoint: last('sampler'),
    user_metadata: textsOf(model.userMetadata),
  };
}

export async function showRun(call: Call, id: string): Promise<object> {
  return runOf(call, await modelOf(call, id));
}

/** The newest first. */
export async function listRuns(call: Call, page: Page): Promise<object> {
  const models = await call.service.journal.models(call.tenant);
  const { page: some, cursor } = cut(
    models.toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1)),
    page,
  );
  return { training_runs: await Promise.all(some.map((model) => runOf(call, model))), cursor };
}

/** `checkpoint`: `weights/NAME` or `sampler_weights/NAME`. */
const pathIn = (run: string, checkpoint: string): string => {
  const path = `tinker://${run}/${checkpoint}`;
  parsePath(path, 'checkpoint_id');
  return path;
};

export async function deleteCheckpoint(call: Call, run: string, checkpoint: string): Promise<object> {
  const { path } = await checkpointOf(call, pathIn(run, checkpoint), { field: 'checkpoint_id' });
  await call.service.journal.deleteCheckpoint(path);
  return { status: 'deleted' };
}

export async function changeCheckpoint(
  call: Call,
  run: string,
  checkpoint: string,
  change: { readonly ttlSeconds?: number | null; readonly public?: boolean },
): Promise<object> {
  const { ttlSeconds } = change;
  const expiresAt = ttlSeconds === null ? null : expiryOf(ttlSeconds, call.service.now());
  const { path } = await checkpointOf(call, pathIn(run, checkpoint), { field: 'checkpoint_id' });
  await call.service.journal.setCheckpoint(path, {
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(change.public === undefined ? {} : { public: change.public }),
  });
  return { status: 'ok' };
}

export async function weightsInfo(call: Call, path: string): Promise<object> {
  const { run } = parsePath(path, 'tinker_path');
  await checkpointOf(call, path, { orPublic: true, field: 'tinker_path' });
  const model = await call.service.journal.model(run);
  if (!model) throw new ApiError(404, `tinker_path: the training run of ${quoted(path)} is not known`);
  const { rank, unembed, mlp, attention } = model.adapter;
  return {
    base_model: model.baseModel,
    optimizer_config: { type: 'adamw' },
    is_lora: true,
    lora_rank: rank,
    train_unembed: unembed,
    train_mlp: mlp,
    train_attn: attention,
  };
}

/** How long a copy may take before the client is asked to send the request again. */
const COPY_MS = 40_000;

/** Into a new run of the caller's: a model that is loaded, saved, and unloaded again. */
export async function copyWeights(call: Call, body: z.output<typeof copyBody>): Promise<object> {
  const { session_id, model_seq_id, source_path } = body;
  if (body.weights_access_token !== undefined)
    throw new ApiError(400, 'weights_access_token is not supported here; publish the checkpoint instead');
  if (session_id === undefined || model_seq_id === undefined)
    throw new ApiError(400, 'session_id and model_seq_id are missing; give both: projects are not kept here');
  const { folder, name } = parsePath(source_path, 'source_path');
  const run = modelId(session_id, model_seq_id);
  const expiresAt = expiryOf(body.ttl_seconds, call.service.now());
  const isRepeated = (await repeated(call, { lane: run, session: session_id, seq: 0 })) !== undefined;
  if (!isRepeated) {
    await checkpointOf(call, source_path, { orPublic: true, field: 'source_path' });
    await checkBytes(call);
  }
  const kind = folder === 'weights' ? 'training' : 'sampler';
  const optimizer = kind === 'training';
  const load = { session_id, model_seq_id, path: source_path, optimizer };
  await loadWeights(call, loadWeightsBody.parse(load));
  const path = pathTo({ run, folder, name });
  const save = {
    kind: 'save_weights',
    path,
    what: kind,
    overwrite: false,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  } as const;
  const { requestId } = await submit(call, { lane: run, session: session_id, seq: 1, operation: save });
  await submit(call, { lane: run, session: session_id, seq: 2, operation: { kind: 'unload_model' } });
  const future = await call.service.journal.waitFor(requestId, call.tenant, COPY_MS, call.signal());
  if (future?.state !== 'finished')
    throw new ApiError(408, 'the copy takes longer: send the request again', { retryAfterSeconds: 1 });
  if (future.result.kind === 'failed') throw new ApiError(400, future.result.message);
  return { tinker_path: path };
}
