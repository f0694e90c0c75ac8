/**
 * URIs of policies that are trained elsewhere and sampled by vLLM or SGLang:
 * `vllm:http://HOST?model=M&version=N#/checkpoint`. They say the servers, the checkpoint's folder and its version, and
 * the name of the variable that holds the key, never the key. Pure.
 */

import { UserInputError } from './user-input-error.ts';

export const SAMPLER_KINDS = ['vllm', 'sglang'] as const;
export type SamplerKind = (typeof SAMPLER_KINDS)[number];

export interface SamplerPolicy {
  readonly kind: SamplerKind;
  /** Addresses without `/v1` and without a slash at the end. At least one. */
  readonly servers: readonly string[];
  /** The base model, by the servers' name for it. */
  readonly model: string;
  /** Grows with each checkpoint: a server with a later one is never set back. */
  readonly version: number;
  /** Absolute path of the checkpoint: of whole weights, or of an adapter in PEFT's layout. */
  readonly folder: string;
  /** The same folder as the servers see it. Absent: under the same path. */
  readonly at?: string;
  /** A directory, or a `file:` or `hub:` URI. Absent: the checkpoint's folder has a tokenizer. */
  readonly tokenizer?: string;
  readonly apiKeyEnv?: string;
  /** Seconds that a server that is behind is waited for. */
  readonly patience: number;
}

/** In seconds. */
const PATIENCE = { usual: 600, most: 1200 };
const FIELDS = ['also', 'model', 'version', 'at', 'tokenizer', 'apiKeyEnv', 'patience'];
const VARIABLE = /^[A-Za-z_]\w{0,63}$/;

const whole = (text: string | null): number | undefined =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : undefined;

function addressOf(text: string): string | undefined {
  const url = /^https?:\/\//.test(text) ? URL.parse(text) : null;
  if (url === null || url.username || url.password) return undefined;
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** Errors: `UserInputError` for `field`. */
export function parseSamplerUri(uri: string, field = 'policy.uri'): SamplerPolicy {
  const refuse = (remedy: string): never => {
    throw new UserInputError(field, uri, remedy);
  };
  const kind = SAMPLER_KINDS.find((one) => uri.startsWith(`${one}:`));
  const shape = `${kind ?? 'vllm'}:http://HOST:PORT?model=MODEL&version=N#/path/of/checkpoint`;
  const rest = kind === undefined ? '' : uri.slice(kind.length + 1);
  const url = URL.parse(rest);
  const first = addressOf(rest.split(/[?#]/)[0] ?? '');
  if (kind === undefined || url === null || first === undefined) return refuse(`give ${shape}`);
  const asked = url.searchParams;
  const unknown = [...asked.keys()].find((name) => !FIELDS.includes(name));
  if (unknown !== undefined) return refuse(`leave ${unknown} out of it`);
  const others = asked.getAll('also').map(addressOf);
  const servers = [first, ...others].filter((one) => one !== undefined);
  if (servers.length <= others.length) return refuse('give other servers as also=http://HOST:PORT, once for each');
  if (new Set(servers).size < servers.length) return refuse('give each server once');
  const text = (name: string): string | undefined => asked.get(name) || undefined;
  const model = text('model') ?? refuse(`give ${shape}`);
  const version = whole(asked.get('version')) ?? refuse('give version=N: the number of the checkpoint, which grows');
  const folder = decoded(url.hash.slice(1));
  if (!folder.startsWith('/')) return refuse(`give the absolute path of the checkpoint after #: ${shape}`);
  const apiKeyEnv = text('apiKeyEnv');
  if (apiKeyEnv !== undefined && !VARIABLE.test(apiKeyEnv)) return refuse('give the name of a variable as apiKeyEnv');
  const patience = asked.has('patience') ? whole(asked.get('patience')) : PATIENCE.usual;
  if (patience === undefined || patience < 1 || patience > PATIENCE.most)
    return refuse(`give patience=SECONDS of 1 to ${PATIENCE.most}`);
  const [at, tokenizer] = [text('at'), text('tokenizer')];
  return {
    kind,
    servers,
    model,
    version,
    folder,
    patience,
    ...(at !== undefined && { at }),
    ...(tokenizer !== undefined && { tokenizer }),
    ...(apiKeyEnv !== undefined && { apiKeyEnv }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replace(/^file:\/\//, ''));
  } catch {
    return '';
  }
}
