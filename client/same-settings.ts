/** Checks that a running run or eval has the requested settings: attaching with others, which it ignores, fails. */

import { resolveRunConfig } from '../config/run-config.ts';
import { resolveSweepConfig } from '../config/sweep-config.ts';
import type { SweepConfig } from '../protocol/eval.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { configDigest, refuseOtherConfig } from '../activities/orchestrator/open-run.ts';
import { UserInputError } from './errors.ts';

export interface Asked {
  readonly kind: 'run' | 'eval';
  readonly name: string;
  readonly workflowId: string;
  /** The settings that a running workflow cannot take over from the request. */
  readonly settings: object;
  /** Extracts the same settings from the argument that it was started with. Errors: any, if that cannot be read. */
  readonly read: (given: unknown) => object;
}

/** The memo that a workflow is started with: it is kept as long as the workflow runs, even when its history is gone. */
export function settingsMemo(settings: object): { readonly settings: string } {
  return { settings: configDigest(settings) };
}

/** Errors: `UserInputError` for the first setting that differs from the running workflow's. */
export async function refuseOtherSettings(
  client: Client,
  { kind, name, workflowId, settings, read }: Asked,
): Promise<void> {
  const described = await client.workflow
    .getHandle(workflowId)
    .describe()
    .catch((error: unknown) => {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    });
  if (described?.status.name !== 'RUNNING') return;
  const { memo, runId, raw } = described;
  if (memo?.['settings'] === settingsMemo(settings).settings) return;
  const remedy = `cancel it first, or give another ${kind} name`;
  let known: object | undefined;
  try {
    known = read(await firstArgument(client, workflowId, raw.workflowExecutionInfo?.firstRunId || runId));
  } catch {
    // Its history is gone, or of another version: only the memo shows that the settings differ.
  }
  if (known) refuseOtherConfig({ kind, name, known, asked: settings, instead: remedy });
  else if (memo?.['settings'] !== undefined)
    throw new UserInputError(
      kind,
      name,
      `${kind === 'run' ? 'a run' : 'an eval'} of that name is running with other settings; ${remedy}`,
    );
}

/** The argument of the workflow's first execution; `undefined` if that history is gone. */
async function firstArgument(
  { workflowService, options }: Client,
  workflowId: string,
  runId: string,
): Promise<unknown> {
  try {
    const execution = { workflowId, runId };
    const { history } = await workflowService.getWorkflowExecutionHistory({
      namespace: options.namespace,
      execution,
      maximumPageSize: 1,
    });
    const [payload] = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    return payload ? options.loadedDataConverter.payloadConverter.fromPayload(payload) : undefined;
  } catch {
    return undefined;
  }
}

/** The settings that a running run cannot take over; the folder of runs is not one of them. */
function settledRun({ dir: _dir, ...rest }: RunConfig): object {
  return rest;
}

export const runMemo = (config: RunConfig) => settingsMemo(settledRun(config));

/** Errors: `UserInputError` for the first setting that differs from those the running run started with. */
export function refuseOtherRun(client: Client, config: RunConfig): Promise<void> {
  const name = config.run;
  const read = (given: unknown) => settledRun(resolveRunConfig({ ...(given as object), run: name }, process.cwd()));
  return refuseOtherSettings(client, {
    kind: 'run',
    name,
    workflowId: `train/${name}`,
    settings: settledRun(config),
    read,
  });
}

/** The settings that a running sweep cannot take over; the folder of evals is not one of them. */
function settledSweep({ dir: _dir, policies, ...rest }: SweepConfig): object {
  return { ...rest, policies: Object.fromEntries(policies.map(({ name, ...policy }) => [name, policy])) };
}

export const sweepMemo = (config: SweepConfig) => settingsMemo(settledSweep(config));

/** Errors: `UserInputError` for the first setting that differs from the running sweep's. */
export function refuseOtherSweep(client: Client, config: SweepConfig): Promise<void> {
  const name = config.eval;
  const read = (given: unknown) =>
    settledSweep(resolveSweepConfig({ ...(given as object), eval: name }, process.cwd()));
  return refuseOtherSettings(client, {
    kind: 'eval',
    name,
    workflowId: `eval/${name}`,
    settings: settledSweep(config),
    read,
  });
}
