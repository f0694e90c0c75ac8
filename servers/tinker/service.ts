/** What the Tinker API's endpoints work with: the journal, the models that are served, and the limits of a tenant. */

import { createHash } from 'node:crypto';
import { ApiError } from '../http/api-error.ts';
import type {
  TinkerCheckpoint,
  TinkerJournal,
  TinkerModel,
  TinkerSampler,
  TinkerSession,
} from '../../store/tinker/journal.ts';

/** A base model that adapters are trained on. */
export interface ServedBase {
  /** What clients are given; also what their `get_tokenizer` loads by the name alone. */
  readonly name: string;
  /** Other names that are accepted for it. */
  readonly aliases: readonly string[];
  /** Hugging Face layout, with a tokenizer. */
  readonly dir: string;
  readonly architecture: string;
  readonly vocabSize: number;
  /** Prompt and answer together, and the longest sequence of a pass. */
  readonly contextTokens: number;
}

/** Per tenant. */
export interface TinkerQuotas {
  /** Samples without a result, and as many requests to models. Beyond it clients wait and send again (429). */
  readonly waiting: number;
  /** Sessions that are not finished. */
  readonly sessions: number;
  /** Bytes of the bodies of each. */
  readonly waitingBytes: number;
  readonly models: number;
  readonly checkpointBytes: number;
}

export const DEFAULT_QUOTAS: TinkerQuotas = {
  waiting: 4096,
  sessions: 4096,
  waitingBytes: 512 * 2 ** 20,
  models: 256,
  checkpointBytes: 64 * 2 ** 30,
};

export interface TinkerService {
  readonly journal: TinkerJournal;
  readonly bases: readonly ServedBase[];
  readonly quotas: TinkerQuotas;
  readonly now: () => Date;
  /** A seed for a request that has none: 0 … 2^31 − 2. */
  readonly drawSeed: () => number;
}

/** One request: whose it is, its body, and when the caller is gone. */
export interface Call {
  readonly service: TinkerService;
  readonly tenant: string;
  readonly signal: () => AbortSignal;
  /** Of the body as it was sent, decompressed, and of the endpoint. */
  readonly digest: string;
}

export const digestOf = (endpoint: string, body: Uint8Array): string =>
  createHash('sha256').update(`${endpoint}\n`).update(body).digest('hex');

/** Errors: `ApiError` 400 for a model that is not served. */
export function baseNamed({ bases }: TinkerService, name: string): ServedBase {
  const found = bases.find((base) => [base.name, ...base.aliases].includes(name));
  if (found) return found;
  throw new ApiError(
    400,
    `base_model: ${quoted(name)} is not served; give ${bases.map((base) => base.name).join(', ')}`,
  );
}

/** What a caller wrote, short enough for an answer. */
export const quoted = (text: unknown): string => {
  const written = JSON.stringify(text) ?? 'nothing';
  return written.length <= 200 ? written : `${written.slice(0, 200)}…`;
};

/** Foreign and unknown ones look the same. */
const missing = (what: string, id: string): ApiError =>
  new ApiError(404, `${what}: ${quoted(id)} does not exist, or belongs to another API key`);

/** Errors: `ApiError` 404. */
export async function sessionOf({ service, tenant }: Call, id: string): Promise<TinkerSession> {
  const session = await service.journal.session(id);
  if (session?.tenant === tenant) return session;
  throw missing('session_id', id);
}

/** Begins the id of a session that the server keeps for samples without one: clients neither see nor finish it. */
export const HIDDEN_SESSION = 'direct-';

/** A session that a client made. Errors: `ApiError` 404. */
export async function ownSessionOf(call: Call, id: string): Promise<TinkerSession> {
  if (id.startsWith(HIDDEN_SESSION)) throw missing('session_id', id);
  return sessionOf(call, id);
}

/** A session that takes operations. Errors: `ApiError` 404; 400 if it is finished. */
export async function openSession(call: Call, id: string): Promise<TinkerSession> {
  const session = await sessionOf(call, id);
  if (session.finished === undefined) return session;
  throw new ApiError(400, `session_id: ${quoted(id)} is finished (${session.finished.type}); create a new session`);
}

/** Errors: `ApiError` 404. */
export async function modelOf({ service, tenant }: Call, id: string): Promise<TinkerModel> {
  const model = await service.journal.model(id);
  if (model?.tenant === tenant) return model;
  throw missing('model_id', id);
}

/** Errors: `ApiError` 404. */
export async function samplerOf({ service, tenant }: Call, id: string): Promise<TinkerSampler> {
  const sampler = await service.journal.sampler(id);
  if (sampler?.tenant === tenant) return sampler;
  throw missing('sampling_session_id', id);
}

/** One that exists now. Errors: `ApiError` 404. */
export async function checkpointOf(
  { service, tenant }: Call,
  path: string,
  { orPublic = false, field = 'path' } = {},
): Promise<TinkerCheckpoint> {
  const found = await service.journal.checkpoint(path);
  const isExpired = found?.expiresAt !== undefined && Date.parse(found.expiresAt) <= service.now().getTime();
  if (found && !isExpired && (found.tenant === tenant || (orPublic && found.public))) return found;
  throw missing(field, path);
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** Of a query. Errors: `ApiError` 400. */
export function pageOf(query: Readonly<Record<string, string>>): Page {
  const read = (name: string, fallback: number, least: number) => {
    const value = query[name] === undefined ? fallback : Number(query[name]);
    if (Number.isSafeInteger(value) && value >= least && value <= 1_000_000_000) return value;
    throw new ApiError(400, `${name}: ${quoted(query[name])} cannot be used; give a whole number of at least ${least}`);
  };
  return { limit: Math.min(1000, read('limit', 20, 0)), offset: read('offset', 0, 0) };
}

/** Metadata as the SDK reads it: texts alone. */
export function textsOf(metadata: unknown): Record<string, string> | null {
  if (metadata === undefined || metadata === null || typeof metadata !== 'object') return null;
  return Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}
