/** References to the policy of a rollout: a URI or an endpoint, never the weights. */

import type { Endpoint } from './endpoint.ts';
import type { ObjectRef } from './stages.ts';

export interface PolicyRef {
  /** What is sampled. Its scheme names the backend: `file:` is a directory in Hugging Face layout. */
  readonly uri: string;
  /** The saved state that training continues from. Absent: `uri` is it. */
  readonly state?: string;
  readonly version: number;
  /** Digest of the files, if it is known: other files under the same name are another policy. */
  readonly digest?: string;
  /** Name of a run that is training: its newest version, this one or a later one, samples each turn. */
  readonly newestOf?: string;
}

/** A policy on another party's server. It can be sampled and not trained. */
export interface EndpointPolicy {
  readonly endpoint: Endpoint;
  readonly version: number;
}

/** `oracle`: the task's own solution. `empty`: ends at once without an answer. */
export type ScriptName = 'oracle' | 'empty';

/** What the policies of earlier rollouts said, again. */
export interface ReplayPolicy {
  readonly scripted: 'replay';
  /** The run, or `eval/ID`. */
  readonly of: string;
  /** `ReplayScripts` in the store. */
  readonly rollouts: ObjectRef;
  readonly version: number;
}

/**
 * Rollouts to play, by the key of their task. Sample K of a task plays the rollout K; after the last the first again.
 */
export type ReplayScripts = Readonly<
  Record<string, ReadonlyArray<{ readonly rollout: string; readonly attempt: number; readonly turns: number }>>
>;

/** A policy without a model. */
export type ScriptedPolicy = { readonly scripted: ScriptName; readonly version: number } | ReplayPolicy;

/** An endpoint as the user gives it. Absent fields take their defaults. */
export type GivenEndpoint = Pick<Endpoint, 'baseUrl' | 'model'> & Partial<Endpoint>;

export type GivenEndpointPolicy = { readonly endpoint: GivenEndpoint; readonly version?: number };

/** The policy of a rollout. Only a `PolicyRef` can be trained. */
export type RolloutPolicy = PolicyRef | EndpointPolicy | ScriptedPolicy;
