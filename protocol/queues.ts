/** Names of task queues, for workflows, workers, clients and the set-up. */

export const QUEUES = {
  orchestrator: 'orchestrator',
  init: 'init',
  agentRun: 'agent-run',
  reward: 'reward',
  gpu: 'gpu',
  /** Turns of endpoints. A separate queue, so that slow endpoints do not delay the engine's work. */
  endpoint: 'endpoint',
  /** Updates of runs with `training.placement: disaggregated`. */
  gpuTrain: 'gpu-train',
} as const;

/** The queue that only one host's worker polls: the host that has the sandbox. */
export function hostQueue(host: string): string {
  return `${QUEUES.agentRun}@${host}`;
}

/** The part of a queue's work that only engines of one kind take. Without a kind: any engine takes it. */
export function kindQueue(queue: string, kind: string | undefined): string {
  return kind === undefined ? queue : `${queue}:${kind}`;
}

/** The kind of engine of a queue's work; `undefined` if any engine takes it. */
export function kindOfQueue(queue: string): string | undefined {
  return /^gpu(?:-train|-tinker)?:(.+)$/.exec(queue)?.[1];
}

/** The queue that only one GPU worker polls: the worker that has a rollout's key-value cache. */
export function workerQueue(worker: string): string {
  return `${QUEUES.gpu}@${worker}`;
}
