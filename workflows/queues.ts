/** Names of task queues: one place, used by workflows, workers, clients and set-up alike. */

export const QUEUES = {
  orchestrator: 'orchestrator',
  init: 'init',
  agentRun: 'agent-run',
  reward: 'reward',
  gpu: 'gpu',
} as const;

/** The queue that only the worker of one host serves: where its sandboxes are. */
export function hostQueue(host: string): string {
  return `${QUEUES.agentRun}@${host}`;
}
