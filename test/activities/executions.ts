/** Executions of an activity in a context that is made by hand: for tests of attempts and their limits. */
import { asyncLocalStorage, type Context, type Info } from '@temporalio/activity';

/** What the server reports of the `attempt`th execution. */
export function info(attempt: number, over: Partial<Info> = {}): Info {
  return {
    activityId: '7',
    activityType: 'computeReward',
    attempt,
    workflowExecution: { workflowId: 'train/r/step-1/t/0', runId: 'run' },
    startToCloseTimeoutMs: 900_000,
    scheduleToCloseTimeoutMs: 604_800_000,
    scheduledTimestampMs: Date.now(),
    ...over,
  } as Info;
}

export interface Execution {
  readonly over?: Partial<Info>;
  readonly signal?: AbortSignal;
}

/** The `attempt`th execution of one scheduled activity, in a process as of now. */
export function execution<T>(
  attempt: number,
  body: () => Promise<T>,
  { over, signal = new AbortController().signal }: Execution = {},
): Promise<T> {
  const context = { info: info(attempt, over), heartbeat: () => undefined, cancellationSignal: signal };
  return asyncLocalStorage.run(context as unknown as Context, body);
}
