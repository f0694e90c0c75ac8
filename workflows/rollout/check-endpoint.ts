/** Checks endpoints once, before sandboxes are made for them. Only an error that a user must fix is thrown. */

import { isCancellation } from '@temporalio/workflow';
import { endpoints } from '../activity-stubs.ts';
import { classify } from '../failures/classify-failure.ts';
import type { Judges } from '../../protocol/judge.ts';
import type { CheckEndpointInput } from '../../protocol/stages.ts';

/** Errors: the activity's failure, of the class `bad-input`; cancellation. */
export async function checkEndpointOnce(input: CheckEndpointInput): Promise<void> {
  try {
    await endpoints.checkEndpoint(input);
  } catch (error) {
    // If the server is down, or a worker died, the rollouts wait and retry by themselves.
    if (isCancellation(error) || classify(error).failure === 'bad-input') throw error;
  }
}

/** Checks the endpoints of a run's judges. Errors: those of `checkEndpointOnce`. */
export async function checkJudgesOnce(run: string, judges: Judges = {}): Promise<void> {
  for (const [name, { endpoint }] of Object.entries(judges))
    await checkEndpointOnce({ run, endpoint, field: `judges.${name}.endpoint` });
}
