/** Waits for the end of a child workflow. A cancellation of the parent reaches the child in any of its histories. */

import {
  CancellationScope,
  type ChildWorkflowHandle,
  getExternalWorkflowHandle,
  type WorkflowResultType,
  type Workflow,
} from '@temporalio/workflow';

/**
 * Temporal passes a cancellation to the child's first history only, and that one has ended if the child continued as
 * new. So the child is also cancelled by its id. Errors: those of the child; the cancellation.
 */
export async function endOfChild<T extends Workflow>(child: ChildWorkflowHandle<T>): Promise<WorkflowResultType<T>> {
  let isOver = false;
  const cancel = async () => {
    if (isOver) return;
    await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(child.workflowId).cancel());
  };
  // A child that cannot be cancelled has ended.
  CancellationScope.current()
    .cancelRequested.catch(cancel)
    .catch(() => undefined);
  try {
    return await child.result();
  } finally {
    isOver = true;
  }
}
