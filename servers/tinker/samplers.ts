/** Samplers of the Tinker API: a base, or weights that were saved; and their samples, which have no order. */

import { createHash, randomInt } from 'node:crypto';
import type { z } from 'zod';
import type { createSamplingSessionBody, sampleBody } from '../../endpoints/tinker/wire/bodies.ts';
import type { TinkerSampler } from '../../store/tinker/journal.ts';
import { ApiError } from '../http/api-error.ts';
import { parsePath } from './paths.ts';
import { readSample } from './read-sample.ts';
import { baseNamed, type Call, checkpointOf, HIDDEN_SESSION, openSession, samplerOf } from './service.ts';
import { seqOf, submit } from './submit.ts';

export const samplerId = (session: string, seq: number | string): string => `${session}:sample:${seqOf(seq)}`;

type Source = { readonly baseModel: string; readonly path?: string };

/** Errors: `ApiError` 400, 404. */
async function sourceOf(call: Call, base: string | undefined, path: string | undefined): Promise<Source> {
  if (path === undefined) {
    if (base === undefined) throw new ApiError(400, 'base_model and model_path are missing; give one of them');
    return { baseModel: baseNamed(call.service, base).name };
  }
  const { run } = parsePath(path, 'model_path');
  await checkpointOf(call, path, { orPublic: true, field: 'model_path' });
  const model = await call.service.journal.model(run);
  const baseModel = model?.baseModel ?? '';
  if (base !== undefined && baseNamed(call.service, base).name !== baseModel)
    throw new ApiError(400, `base_model: ${base} is not the one of the checkpoint; give ${baseModel}`);
  return { baseModel: baseNamed(call.service, baseModel).name, path };
}

/** The same request as the one that made this sampler: its weights may be gone by now, and its session finished. */
function isRepeated(
  { service, tenant }: Call,
  known: TinkerSampler,
  { base_model: base, model_path: path }: z.output<typeof createSamplingSessionBody>,
): boolean {
  if (known.tenant !== tenant || known.path !== path) return false;
  return base === undefined ? path !== undefined : baseNamed(service, base).name === known.baseModel;
}

export async function createSampler(call: Call, body: z.output<typeof createSamplingSessionBody>): Promise<object> {
  const known = await call.service.journal.sampler(samplerId(body.session_id, body.sampling_session_seq_id));
  if (known !== undefined && isRepeated(call, known, body))
    return { type: 'create_sampling_session', sampling_session_id: known.id };
  const source = await sourceOf(call, body.base_model, body.model_path);
  const { id: session } = await openSession(call, body.session_id);
  const { tenant } = call;
  const asked = { id: samplerId(session, body.sampling_session_seq_id), session, tenant, ...source };
  const sampler = await call.service.journal.putSampler(asked);
  if (sampler.path !== asked.path || sampler.baseModel !== asked.baseModel)
    throw new ApiError(400, 'sampling_session_seq_id: another sampler has this number; give the next one');
  return { type: 'create_sampling_session', sampling_session_id: sampler.id };
}

export async function showSampler(call: Call, id: string): Promise<object> {
  const { baseModel, path } = await samplerOf(call, id);
  return { sampler_id: id, base_model: baseModel, model_path: path ?? null };
}

/** A number that no other copy of the client has: copies number their requests from a billion times it. */
export async function joinSampler(call: Call, id: string): Promise<object> {
  await samplerOf(call, id);
  return { type: 'join_sampling_session', client_counter: randomInt(1, 1_000_000_000) };
}

function directSession(tenant: string, weights: string): string {
  return `${HIDDEN_SESSION}${createHash('sha256').update(`${tenant}\n${weights}`).digest('hex').slice(0, 16)}`;
}

/** The future of such a request that was accepted before: what it samples may be gone by now. */
async function directRepeated(call: Call, body: z.output<typeof sampleBody>): Promise<string | undefined> {
  const { model_path: path, seq_id: seq } = body;
  if (path === undefined || seq === undefined) return undefined;
  const lane = samplerId(directSession(call.tenant, path), 0);
  if ((await call.service.journal.sampler(lane)) === undefined) return undefined;
  return (await call.service.journal.known(lane, seqOf(seq), call.digest))?.requestId;
}

/** The sampler of a request that names weights instead, as older clients do: one per tenant and weights. */
async function directSampler(call: Call, body: z.output<typeof sampleBody>): Promise<TinkerSampler> {
  const { service, tenant } = call;
  const source = await sourceOf(call, body.base_model, body.model_path);
  const session = directSession(tenant, source.path ?? source.baseModel);
  const at = service.now().toISOString();
  if (!(await service.journal.session(session)))
    await service.journal.putSession({ id: session, tenant, tags: [], createdAt: at, seenAt: at });
  return service.journal.putSampler({ id: samplerId(session, 0), session, tenant, ...source });
}

const sampling = (requestId: string, count: number): object => ({
  request_id: requestId,
  sample_sequence_ids: Array.from({ length: count }, (_, i) => `${requestId}:${i}`),
});

export async function sample(call: Call, body: z.output<typeof sampleBody>): Promise<object> {
  const id = body.sampling_session_id;
  const before = id === undefined ? await directRepeated(call, body) : undefined;
  if (before !== undefined) return sampling(before, body.num_samples);
  const sampler = id === undefined ? await directSampler(call, body) : await samplerOf(call, id);
  const number = body.seq_id === undefined ? undefined : seqOf(body.seq_id);
  const known = number === undefined ? undefined : await call.service.journal.known(sampler.id, number, call.digest);
  if (known !== undefined) return sampling(known.requestId, body.num_samples);
  const base = baseNamed(call.service, sampler.baseModel);
  const asked = readSample(body, base, call.service.drawSeed);
  if (sampler.path !== undefined)
    await checkpointOf(call, sampler.path, { orPublic: true, field: 'sampling_session_id: its weights' });
  const { requestId } = await submit(call, {
    lane: sampler.id,
    session: sampler.session,
    seq: body.seq_id,
    operation: { kind: 'sample', sample: asked },
  });
  return sampling(requestId, asked.count);
}
