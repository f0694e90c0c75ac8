/**
 * How long a server that is down is retried, by its endpoint's settings: over all attempts of a turn, and within one.
 */

import type { Store } from '../../store/store.ts';
import type { Endpoint } from '../../protocol/endpoint.ts';
import type { RolloutPolicy } from '../../protocol/policy.ts';
import { EndpointUnavailable } from '../failures.ts';
import { type Patience, patienceLeft } from '../own-patience.ts';
import { OwnClock, within } from '../own-time.ts';

function patienceWith({ baseUrl, patienceSeconds }: Endpoint): Patience {
  return {
    failure: 'endpoint-unavailable',
    ms: patienceSeconds * 1000,
    message: (why) =>
      `${baseUrl} gave no answer within patienceSeconds, which is ${patienceSeconds} s (${why.slice(0, 200)})`,
  };
}

/** The patience over all attempts of a turn. */
export function patienceOf(policy: RolloutPolicy): { readonly patience?: Patience } {
  return 'endpoint' in policy ? { patience: patienceWith(policy.endpoint) } : {};
}

/**
 * Ends `ask` when the patience ends: a server that accepts a request and never answers is as unavailable as one that
 * refuses it. `ask` reports the failures that it retries: the last one is the reason.
 * Errors: those of `ask`; `EndpointUnavailable`; the reason of `signal`.
 */
export async function whilePatient<T>(
  endpoint: Endpoint,
  store: Pick<Store, 'list'>,
  signal: AbortSignal,
  ask: (signal: AbortSignal, onFailure: (error: Error) => void) => Promise<T>,
): Promise<T> {
  const clock = new OwnClock();
  const ms = await patienceLeft(patienceWith(endpoint), store, clock);
  let last: Error | undefined;
  const over = () =>
    new EndpointUnavailable(last ? `the last failure: ${last.message}` : 'the last call had no answer yet', undefined);
  return within({ ms, clock, over }, signal, (own) =>
    ask(own, (error) => {
      last = error;
    }),
  );
}
