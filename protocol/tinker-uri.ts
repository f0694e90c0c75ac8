/**
 * URIs of policies on a Tinker server: `tinker:http(s)://HOST?model=M&tokenizer=T…#tinker://RUN/weights/NAME`. They say
 * the server, the base model and the checkpoint, and the name of the variable that holds the key, never the key. Pure.
 */

import { UserInputError } from './user-input-error.ts';

/** What a server does with a pass: `sum` as Tinker; `sequence-mean`: a mean over sequences of means over tokens. */
export const TINKER_REDUCTIONS = ['sum', 'sequence-mean'] as const;
export type TinkerReduction = (typeof TINKER_REDUCTIONS)[number];

export interface TinkerPolicy {
  /** Without `/api/v1`, and without a slash at the end. */
  readonly baseUrl: string;
  /** The base model, by the server's name for it. */
  readonly model: string;
  /** A directory, or a `file:` or `hub:` URI, with `tokenizer.json` and a chat template. */
  readonly tokenizer: string;
  /** Name of the environment variable that holds the key where the workers run. */
  readonly apiKeyEnv?: string;
  /** Absent: the server's `loss:sum` is compared with what a sum would be. */
  readonly reduction?: TinkerReduction;
  /** `tinker://RUN/weights/NAME` or `tinker://RUN/sampler_weights/NAME`. Absent: the base model. */
  readonly path?: string;
}

const SCHEME = 'tinker:';
const PATH = /^tinker:\/\/[A-Za-z0-9_.:-]{1,255}\/(weights|sampler_weights)\/[A-Za-z0-9_.-]{1,255}$/;
const VARIABLE = /^[A-Za-z_]\w{0,63}$/;

/** True for a checkpoint's name on a server, which does not say the server. */
export const isTinkerPath = (text: string): boolean => PATH.test(text);

/** True for a URI that says the server. */
export const isTinkerUri = (text: string): boolean => /^tinker:https?:/.test(text);

export function tinkerUri({ baseUrl, model, tokenizer, apiKeyEnv, reduction, path }: TinkerPolicy): string {
  const asked = new URLSearchParams({ model, tokenizer });
  if (apiKeyEnv !== undefined) asked.set('apiKeyEnv', apiKeyEnv);
  if (reduction !== undefined) asked.set('reduction', reduction);
  return `${SCHEME}${baseUrl}?${asked.toString()}${path === undefined ? '' : `#${path}`}`;
}

/** Errors: `UserInputError` for `field`. */
export function parseTinkerUri(uri: string, field = 'policy.uri'): TinkerPolicy {
  const refuse = (remedy: string): never => {
    throw new UserInputError(field, uri, remedy);
  };
  const url = isTinkerUri(uri) ? URL.parse(uri.slice(SCHEME.length)) : null;
  if (url === null || url.username || url.password)
    return refuse('give tinker:https://HOST?model=MODEL&tokenizer=FOLDER, and a checkpoint after #');
  const asked = url.searchParams;
  const [model, tokenizer] = [asked.get('model') ?? '', asked.get('tokenizer') ?? ''];
  if (model === '' || tokenizer === '') return refuse('give ?model=MODEL&tokenizer=FOLDER in it');
  const unknown = [...asked.keys()].find((name) => !['model', 'tokenizer', 'apiKeyEnv', 'reduction'].includes(name));
  if (unknown !== undefined) return refuse(`leave ${unknown} out of it`);
  const apiKeyEnv = asked.get('apiKeyEnv') ?? undefined;
  if (apiKeyEnv !== undefined && !VARIABLE.test(apiKeyEnv)) return refuse('give the name of a variable as apiKeyEnv');
  const given = asked.get('reduction') ?? undefined;
  const reduction = TINKER_REDUCTIONS.find((one) => one === given);
  if (given !== undefined && reduction === undefined) return refuse(`give ${TINKER_REDUCTIONS.join(' or ')}`);
  const path = url.hash === '' ? undefined : url.hash.slice(1);
  if (path !== undefined && !isTinkerPath(path)) return refuse('give tinker://RUN/weights/NAME after #');
  return {
    baseUrl: `${url.origin}${url.pathname}`.replace(/\/+$/, ''),
    model,
    tokenizer,
    ...(apiKeyEnv !== undefined && { apiKeyEnv }),
    ...(reduction !== undefined && { reduction }),
    ...(path !== undefined && { path }),
  };
}
