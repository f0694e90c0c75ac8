/** Turns on record, and the training data of a step of them: for tests of what an update is made from. */
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { trainingDataOf } from '../../../activities/update/training-data.ts';
import type { AlgorithmSettings } from '../../../protocol/run-config.ts';
import { algorithm, attemptOf, putManifest, type useWorld } from '../world.ts';

/** Functions over the store of `world`. */
export function stepsIn(world: ReturnType<typeof useWorld>) {
  async function said(task: number, k: number, turns: ReadonlyArray<Partial<GenerateRecord>>): Promise<void> {
    for (const [i, turn] of turns.entries()) {
      await world.now.store.putOnce<GenerateRecord>(keys.generate(attemptOf(task, k), i + 1), {
        version: 0,
        appended: [],
        reset: false,
        sampled: [],
        logprobs: [],
        end: 'stop',
        parsed: { kind: 'no-call', content: '' },
        ...turn,
      });
    }
  }

  async function prepare(
    tasks: readonly number[],
    samples: number,
    wanted?: number,
    settings: Partial<AlgorithmSettings> = {},
  ) {
    const names = tasks.map((task) => attemptOf(task).task);
    return trainingDataOf(
      {
        batches: [await putManifest(world.now.store, names, samples)],
        samples,
        algorithm: { ...algorithm, ...settings },
        ...(wanted && { wanted }),
      },
      world.now.store,
    );
  }

  async function fatesOf(tasks: readonly number[], samples: number, wanted?: number) {
    const { fates } = await prepare(tasks, samples, wanted);
    return Object.fromEntries(
      [...fates].map(([rollout, { event, reason }]) => [
        rollout.slice(rollout.indexOf('toy')),
        `${event} ${reason}`.trim(),
      ]),
    );
  }

  return { said, prepare, fatesOf };
}
