/** How a kind of server is given weights, and how its answers say which weights sampled them. */

import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { type Checkpoint, versionIn } from './checkpoint.ts';
import type { SamplerServer } from './sampler-server.ts';

/** `loading`: somebody pushes weights, or was killed doing so. `mark` is the same as long as it is the same push. */
export type ServerState =
  | { readonly is: 'ready' }
  | { readonly is: 'behind'; readonly has: string }
  | { readonly is: 'loading'; readonly mark: string };

/** Both functions may be called again after a crash, by several processes. */
export interface PushedWeights {
  /** What the server has, as it says itself. Errors: `EndpointError`, `SamplerAhead`. */
  look(server: SamplerServer, checkpoint: Checkpoint, signal: AbortSignal): Promise<ServerState>;
  /** Gives it the weights. That it has them is known by `look` alone. Errors: `EndpointError`. */
  push(server: SamplerServer, checkpoint: Checkpoint, signal: AbortSignal): Promise<void>;
  /** Fields that bind a request to the weights. */
  request(checkpoint: Checkpoint): Readonly<Record<string, unknown>>;
  /** Errors: `WrongVersion` if other weights sampled it; `EndpointError` if it does not say which. */
  check(answer: unknown, checkpoint: Checkpoint): void;
}

/** Weights other than the asked ones sampled an answer. It is dropped, and the server is looked at again. */
export class WrongVersion extends Error {
  override readonly name = 'WrongVersion';
}

/** The server has a later version, or another one under this number. It is never set back. */
export class SamplerAhead extends Error {
  override readonly name = 'SamplerAhead';
}

/** A server did not have the version in the time that it was waited for. */
export class SamplerBehind extends Error {
  override readonly name = 'SamplerBehind';
}

/** Errors: `SamplerAhead` if a push of `checkpoint` would take a later version, or another one, from others. */
export function refuseBackward(label: string, checkpoint: Checkpoint, { address }: SamplerServer): void {
  const found = versionIn(label);
  if (found === undefined || found.version < checkpoint.version) return;
  if (found.version === checkpoint.version && checkpoint.label.endsWith(found.digest)) return;
  const what = found.version > checkpoint.version ? 'a later version' : 'other weights under this version';
  throw new SamplerAhead(
    `${address} has ${label}, and ${checkpoint.label} is asked for: it has ${what}. Give another server, ` +
      'a higher version, or start the server again',
  );
}

/** The label of weights of no known version: those of a push that failed. */
export const UNKNOWN = 'unknown';

/** Errors: `SamplerAhead` if whole weights that were pushed are below an adapter: it is of the base model. */
export function refuseOtherBase(label: string, checkpoint: Checkpoint, { address }: SamplerServer): void {
  if (versionIn(label) === undefined && label !== UNKNOWN) return;
  throw new SamplerAhead(
    `${address} has the pushed weights ${label}, and the adapter ${checkpoint.label} is of the base model. ` +
      'Give another server, or start the server again',
  );
}

/** Spans of an answer's tokens with the label of the weights that sampled them. */
export const spans = z.array(
  z.union([
    z.object({ version: z.string() }).transform(({ version }) => version),
    z.tuple([z.string(), z.number(), z.number()]).transform(([version]) => version),
  ]),
);

/** Errors: `WrongVersion`. */
export function checkLabels(labels: readonly string[], { label }: Checkpoint): void {
  const other = labels.find((one) => one !== label);
  if (other !== undefined) throw new WrongVersion(`weights ${other} sampled the answer, and not ${label}`);
}

/** Errors: `EndpointError` of kind `protocol`. */
export function checkedAnswer<T>(schema: z.ZodType<T>, body: unknown, what: string, remedy: string): T {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const { path = [], message = 'unreadable' } = read.error.issues[0] ?? {};
  throw new EndpointError('protocol', `${what} lacks ${path.join('.') || 'its fields'} (${message}): ${remedy}`);
}
