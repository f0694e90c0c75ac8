/** Which policy a rollout is made with: a directory, or an endpoint; by reference, never the weights. */

import type { Endpoint } from './endpoint.ts';

export interface PolicyRef {
  /** Directory in Hugging Face layout. */
  readonly dir: string;
  readonly version: number;
  /** Of the files, where it is known: other files under the same name are another policy. */
  readonly digest?: string;
  /** A run that trains meanwhile: each turn is sampled by its newest version, this one or a later one. */
  readonly newestOf?: string;
}

/** A policy behind somebody else's server: it is sampled from, and takes no updates. */
export interface EndpointPolicy {
  readonly endpoint: Endpoint;
  readonly version: number;
}

/** An endpoint as it is given: what is absent takes its default. */
export type GivenEndpoint = Pick<Endpoint, 'baseUrl' | 'model'> & Partial<Endpoint>;

export type GivenEndpointPolicy = { readonly endpoint: GivenEndpoint; readonly version?: number };

/** What a rollout can be made with; only a `PolicyRef` can be trained. */
export type RolloutPolicy = PolicyRef | EndpointPolicy;
