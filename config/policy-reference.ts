/** The ways to name a policy in an eval and on the command line. */

import type { ScriptName } from '../protocol/policy.ts';

export type PolicyReference =
  | { readonly kind: 'starter' }
  | { readonly kind: 'scripted'; readonly scripted: ScriptName }
  | { readonly kind: 'replay'; readonly of: string }
  | { readonly kind: 'model'; readonly model: string }
  | { readonly kind: 'checkpoint'; readonly run: string; readonly step: number }
  | { readonly kind: 'latest'; readonly run: string };

const RUN = '[A-Za-z0-9][A-Za-z0-9._-]{0,99}';

/** Before the name of a run, or `eval/ID`. */
const REPLAY = 'replay:';

const LATEST = new RegExp(`^latest:(${RUN})$`);

const CHECKPOINT = new RegExp(`^(${RUN})@(0|[1-9]\\d{0,8})$`);

/**
 * `starter`: the built-in policy. `oracle`, `empty`: scripts that solve each task, or end at once. `replay:RUN`,
 * `replay:eval/ID`: what was said in these rollouts, again. `RUN@STEP`: a
 * checkpoint of a run. `latest:RUN`: the last checkpoint that the run published. Anything else is a
 * directory in Hugging Face layout (so is `./starter`), a hub id, or a URI.
 */
export function parsePolicyReference(text: string): PolicyReference {
  if (text === 'starter') return { kind: 'starter' };
  if (text === 'oracle' || text === 'empty') return { kind: 'scripted', scripted: text };
  if (text.startsWith(REPLAY)) return { kind: 'replay', of: text.slice(REPLAY.length) };
  const [, latest] = LATEST.exec(text) ?? [];
  if (latest !== undefined) return { kind: 'latest', run: latest };
  const [, run, step] = CHECKPOINT.exec(text) ?? [];
  if (run !== undefined) return { kind: 'checkpoint', run, step: Number(step) };
  return { kind: 'model', model: text };
}

/** A name for results and ids: letters, digits, dot, dash, underscore and `@`. */
export function defaultPolicyName(text: string): string {
  const reference = parsePolicyReference(text);
  const name = reference.kind === 'model' ? (text.split('/').findLast((part) => /\w/.test(part)) ?? 'policy') : text;
  return name.replaceAll(/[^A-Za-z0-9._@-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '') || 'policy';
}
