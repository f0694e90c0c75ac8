/** Whether what goes on under a name is what is asked for: to attach to another, whose settings would be ignored, is refused. */

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
  /** All that what goes on would ignore of other settings. */
  readonly settings: object;
  /** The same of what it was started with. Errors: any, for what cannot be read. */
  readonly read: (given: unknown) => object;
}

/** What it is started with beside its argument: kept for as long as it goes on, whatever becomes of its histories. */
export function settingsMemo(settings: object): { readonly settings: string } {
  return { settings: configDigest(settings) };
}

/** Errors: `UserInputError` for the first setting that is another one in what goes on. */
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
    // Its history is gone, or of another version: the memo alone says that it is another one.
  }
  if (known) refuseOtherConfig({ kind, name, known, asked: settings, instead: remedy });
  else if (memo?.['settings'] !== undefined)
    throw new UserInputError(
      kind,
      name,
      `${kind === 'run' ? 'a run' : 'an eval'} of that name goes on with other settings; ${remedy}`,
    );
}

/** The argument of its first execution; `undefined` where that history is gone. */
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

/** All that a run which goes on would ignore of other settings; where its folder is made does not matter to it. */
function settledRun({ dir: _dir, ...rest }: RunConfig): object {
  return rest;
}

export const runMemo = (config: RunConfig) => settingsMemo(settledRun(config));

/** Errors: `UserInputError` for the first setting that the run which goes on began with otherwise. */
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

/** All that a sweep which goes on would ignore of other settings; where its folder is made does not matter to it. */
function settledSweep({ dir: _dir, policies, ...rest }: SweepConfig): object {
  return { ...rest, policies: Object.fromEntries(policies.map(({ name, ...policy }) => [name, policy])) };
}

export const sweepMemo = (config: SweepConfig) => settingsMemo(settledSweep(config));

/** Errors: `UserInputError` for the first setting that is another one in the sweep that goes on. */
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
