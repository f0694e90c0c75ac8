/** What an operation does to a model in memory, in its first run and when it is run again. */

import type { TinkerOperation, TinkerResult } from '../../protocol/tinker.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { WaitingOperation } from '../../store/tinker/journal.ts';
import type { Resident } from './resident-models.ts';

export function tokensOf(operation: TinkerOperation): number {
  return operation.kind === 'pass' ? operation.pass.data.reduce((sum, { tokens }) => sum + tokens.length, 0) : 0;
}

/**
 * Runs an operation that changes the model, or a forward pass. `reads`: the checkpoint's directory.
 * `signal` stops a pass. Errors: `UserInputError`; those of the trainer; the signal's reason.
 */
export async function applyToModel(
  resident: Resident,
  { operation }: Pick<WaitingOperation, 'operation'>,
  reads: string | undefined,
  signal?: AbortSignal,
): Promise<TinkerResult> {
  const { trainer, engineId } = resident;
  switch (operation.kind) {
    case 'create_model':
      await trainer.create(engineId, operation.adapter);
      resident.exists = true;
      return { kind: 'done' };
    case 'load_weights':
      if (reads === undefined)
        throw new UserInputError('path', operation.path, 'there is no such checkpoint (any more): list checkpoints');
      await trainer.load(engineId, reads, { optimizer: operation.optimizer });
      resident.exists = true;
      return { kind: 'done' };
    case 'pass':
      return { kind: 'pass', result: await trainer.pass(engineId, operation.pass, signal) };
    case 'optim_step':
      return { kind: 'optim_step', ...(await trainer.optimStep(engineId, operation.adam)) };
    default:
      throw new UserInputError('kind', operation.kind, 'this operation does not change a model');
  }
}
