/** Log messages of Temporal's SDK, activities and workflows as lines of the process's log, with run and rollout. */

import {
  type ActivityInterceptorsFactory,
  DefaultLogger,
  type Logger as TemporalLogger,
  type LogLevel,
} from '@temporalio/worker';
import type { Logger } from './process-log.ts';

type Fields = Readonly<Record<string, unknown>>;

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** Temporal's field names and ours. Temporal's `runId` is one execution of a workflow. */
const RENAMED: Readonly<Record<string, string>> = {
  activityType: 'activity',
  taskQueue: 'queue',
  sdkComponent: 'component',
  runId: 'workflowRunId',
};
/** Fields that are useless to a reader, or the same in every line. */
const LEFT_OUT: ReadonlySet<string> = new Set(['taskToken', 'namespace', 'isLocal', 'run', 'rollout', 'eval']);

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** The run in an id that our own clients give: `train/RUN/…`, `eval/EVAL/…`. `undefined` for any other id. */
function runOfWorkflow(workflowId: string | undefined): string | undefined {
  return /^(?:train\/([^/]+)|(eval\/[^/]+))/
    .exec(workflowId ?? '')
    ?.slice(1)
    .find((part) => part !== undefined);
}

/** A line's fields from Temporal's; a workflow's own `log`, and `logsAbout`, also give `run`, `eval` or `rollout`. */
export function fieldsOf(meta: Fields): Fields {
  const workflowId = textOf(meta['workflowId']);
  const evaluation = textOf(meta['eval']);
  const ofRollout = meta['workflowType'] === 'rollout' ? workflowId : undefined;
  const runId = textOf(meta['run']) ?? (evaluation === undefined ? runOfWorkflow(workflowId) : `eval/${evaluation}`);
  const rolloutId = textOf(meta['rollout']) ?? ofRollout;
  return {
    ...(runId === undefined ? {} : { runId }),
    ...(rolloutId === undefined ? {} : { rolloutId }),
    ...Object.fromEntries(
      Object.entries(meta).flatMap(([name, value]) => (LEFT_OUT.has(name) ? [] : [[RENAMED[name] ?? name, value]])),
    ),
  };
}

/** Temporal's logger, for warnings and errors. */
export function temporalLogger(log: Logger): TemporalLogger {
  return new DefaultLogger('WARN', ({ level, message, meta }: { level: LogLevel; message: string; meta?: Fields }) =>
    log[LEVELS[level]](fieldsOf(meta ?? {}), message),
  );
}

/** Adds the run and the rollout of an activity's input to what it logs: workflows that others start may have any id. */
export const logsAbout: ActivityInterceptorsFactory = () => {
  let about: Fields = {};
  return {
    inbound: {
      execute(input, next) {
        const { run, rollout } = (input.args[0] ?? {}) as Fields;
        about = { run, rollout };
        return next(input);
      },
    },
    outbound: { getLogAttributes: (attributes, next) => next({ ...attributes, ...about }) },
  };
};
