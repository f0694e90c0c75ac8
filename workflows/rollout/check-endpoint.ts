/** Asks an endpoint once, before sandboxes are made for it: what a user must change is found then, and nothing else ends anything. */

import { isCancellation } from '@temporalio/workflow';
import { endpoints } from '../activity-stubs.ts';
import { classify } from '../failures/classify-failure.ts';
import type { CheckEndpointInput } from '../../protocol/stages.ts';

/** Errors: the activity's failure, of the class `bad-input`; cancellation. */
export async function checkEndpointOnce(input: CheckEndpointInput): Promise<void> {
  try {
    await endpoints.checkEndpoint(input);
  } catch (error) {
    // A server that is down, or a worker that died at it, is met by the rollouts' own patience.
    if (isCancellation(error) || classify(error).failure === 'bad-input') throw error;
  }
}
