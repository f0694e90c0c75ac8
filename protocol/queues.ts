/** Names of task queues: one place, used by workflows, workers, clients and set-up alike. */

export const QUEUES = {
  orchestrator: 'orchestrator',
  init: 'init',
  agentRun: 'agent-run',
  reward: 'reward',
  gpu: 'gpu',
  /** Policies behind other servers: what waits for those holds nothing up that the engine is asked for. */
  endpoint: 'endpoint',
  /** Updates of runs that keep generation and training apart. */
  gpuTrain: 'gpu-train',
} as const;

/** The queue that only the worker of one host serves: where its sandboxes are. */
export function hostQueue(host: string): string {
  return `${QUEUES.agentRun}@${host}`;
}

/** The queue that only one GPU worker serves: where a rollout's key-value cache is. */
export function workerQueue(worker: string): string {
  return `${QUEUES.gpu}@${worker}`;
}
