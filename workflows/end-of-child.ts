/** The end of a child that its parent waits for, and that is cancelled with it in whichever history it is. */

import {
  CancellationScope,
  type ChildWorkflowHandle,
  getExternalWorkflowHandle,
  type WorkflowResultType,
  type Workflow,
} from '@temporalio/workflow';

/**
 * Temporal hands a cancellation on to the first history of a child alone, which is over where the child goes on in another
 * one: it is cancelled by its name too. Errors: those of the child; the cancellation.
 */
export async function endOfChild<T extends Workflow>(child: ChildWorkflowHandle<T>): Promise<WorkflowResultType<T>> {
  let isOver = false;
  const cancel = async () => {
    if (isOver) return;
    await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(child.workflowId).cancel());
  };
  // What cannot be cancelled has ended.
  CancellationScope.current()
    .cancelRequested.catch(cancel)
    .catch(() => undefined);
  try {
    return await child.result();
  } finally {
    isOver = true;
  }
}
