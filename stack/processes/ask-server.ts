/** Checks that the stack's own server answers: its process may run and not answer. */

import { checkCluster } from '../temporal-server/cluster-health.ts';
import { SERVER } from '../embedded-server.ts';
import type { ListedStack } from './list-processes.ts';

const ANSWERS_WITHIN_MS = 3_000;

/** The stack as it was listed, with its server `silent` if it does not answer. */
export async function withServerAsked(stack: ListedStack): Promise<ListedStack> {
  const server = stack.processes.find(({ name, state }) => name === SERVER && state === 'ready');
  if (server === undefined || stack.address === null || stack.namespace === null) return stack;
  const why = await checkCluster({ address: stack.address }, stack.namespace, ANSWERS_WITHIN_MS).then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  if (why === undefined) return stack;
  const problem = `${SERVER} runs, but does not answer at ${stack.address} (${why}): see ${server.log}`;
  return {
    ...stack,
    processes: stack.processes.map((one) => (one === server ? { ...one, state: 'silent', problem } : one)),
  };
}
