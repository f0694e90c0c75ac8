/** Whether a sweep that goes on under an eval's name is the one that is asked for: to attach to another is refused. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { configDigest, refuseOtherConfig } from '../../activities/run/open-run.ts';
import { resolveSweepConfig } from '../../activities/evaluation/sweep/sweep-config.ts';
import type { SweepConfig } from '../../workflows/messages/eval.ts';
import { UserInputError } from '../errors.ts';

/** All that a sweep which goes on would ignore of other settings; where its folder is made does not matter to it. */
function settled({ dir: _dir, policies, ...rest }: SweepConfig): object {
  return { ...rest, policies: Object.fromEntries(policies.map(({ name, ...policy }) => [name, policy])) };
}

/** What a sweep is started with beside its argument: kept for as long as it goes on, whatever becomes of its histories. */
export function sweepMemo(config: SweepConfig): { readonly settings: string } {
  return { settings: configDigest(settled(config)) };
}

/** The argument of the sweep's first execution; `undefined` where its history is gone. */
async function givenTo({ workflowService, options }: Client, workflowId: string, runId: string): Promise<unknown> {
  try {
    const execution = { workflowId, runId };
    const { history } = await workflowService.getWorkflowExecutionHistory({ namespace: options.namespace, execution, maximumPageSize: 1 });
    const [payload] = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    return payload ? options.loadedDataConverter.payloadConverter.fromPayload(payload) : undefined;
  } catch {
    return undefined;
  }
}

function read(given: unknown, id: string): SweepConfig | undefined {
  try {
    return resolveSweepConfig({ ...(given as object), eval: id }, process.cwd());
  } catch {
    return undefined;
  }
}

/** Errors: `UserInputError` for the first setting that is another one in the sweep that goes on. */
export async function refuseOtherSweep(client: Client, config: SweepConfig): Promise<void> {
  const id = config.eval;
  const handle = client.workflow.getHandle(`eval/${id}`);
  const described = await handle.describe().catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  });
  if (described?.status.name !== 'RUNNING') return;
  const { memo, runId, raw, workflowId } = described;
  if (memo?.['settings'] === sweepMemo(config).settings) return;
  const began = read(await givenTo(client, workflowId, raw.workflowExecutionInfo?.firstRunId || runId), id);
  const remedy = 'cancel it first, or give another eval name';
  if (began) {
    refuseOtherConfig({ kind: 'eval', name: id, known: settled(began), asked: settled(config), instead: remedy });
  } else if (memo?.['settings'] !== undefined) {
    throw new UserInputError('eval', id, `an eval of that name goes on with other settings; ${remedy}`);
  }
}
