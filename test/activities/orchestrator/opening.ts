/** Runs that are opened from a small configuration: for tests of `openRun`. Call it once in a test file. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect } from 'vitest';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { orchestratorActivities, RUN, useWorld } from '../world.ts';

export function useOpening() {
  const world = useWorld();

  function open(given: unknown, run?: string) {
    const { store } = world.now;
    const describePolicy = async () => ({ parameters: 12, vocabulary: 34 });
    return orchestratorActivities({
      store,
      tasks: new TaskLoader(store),
      temporal: { address: '', namespace: '', ui: '' },
      describePolicy,
    }).openRun(given, run as string);
  }
  const base = () => join(world.now.dir, 'policy');
  const good = () => ({
    run: RUN,
    dir: join(world.now.dir, 'runs'),
    seed: 5,
    policy: { base: base() },
    task: { name: 'toy', train: 10 },
  });

  beforeEach(() => {
    mkdirSync(base());
    for (const file of ['config.json', 'tokenizer.json']) writeFileSync(join(base(), file), '{}');
  });

  const refusal = async (opening: Promise<unknown>) => {
    const refused: unknown = await opening.catch((error: unknown) => error);
    expect(refused).toMatchObject({ type: 'UserInputError', nonRetryable: true });
    return (refused as { cause: UserInputError }).cause;
  };

  return { world, open, base, good, refusal };
}
