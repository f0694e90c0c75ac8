/** Whether what goes on under a name is what is asked for: to attach to another, whose settings would be ignored, is refused. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { configDigest, refuseOtherConfig } from '../activities/orchestrator/open-run.ts';
import { UserInputError } from './errors.ts';
import { firstArgument } from './first-argument.ts';

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
