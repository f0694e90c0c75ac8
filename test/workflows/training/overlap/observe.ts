/** Runs whose rollouts overlap with updates, and what is seen of them: which version each group started with, and which step trained on it. */
import type { TrainingSettings } from '../../../../protocol/run-config.ts';
import type { UpdateInput } from '../../../../protocol/update.ts';

export const config = (run: string, training: TrainingSettings, over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 60 },
  steps: 5,
  batch: { tasks: 2, samples: 2 },
  training,
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 8 },
  ...over,
});

export const groupsOf = ({ batches }: UpdateInput) => batches.map((id) => id.split('/')[2]!);
export const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => `group-${from + i}`);

/** Records which versions groups started with and which steps trained on them. */
export function observe(run: string) {
  const began = new Map<string, number>();
  const trained: Array<{ step: number; groups: string[]; version: number }> = [];
  const asked: Array<{ rollout: string; turn: number; newestOf: string | undefined }> = [];
  return {
    began,
    trained,
    asked,
    update: (input: UpdateInput) =>
      void (
        input.run === run && trained.push({ step: input.step, groups: groupsOf(input), version: input.policy.version })
      ),
    generate: (input: {
      run: string;
      rollout: string;
      turn: number;
      policy: { version: number; newestOf?: string };
    }) => {
      const group = input.rollout.split('/')[2]!;
      if (input.run !== run) return;
      if (group.startsWith('group') || group.startsWith('step')) began.set(group, input.policy.version);
      asked.push({ rollout: input.rollout, turn: input.turn, newestOf: input.policy.newestOf });
    },
  };
}

export function stalenessOf({ began, trained }: ReturnType<typeof observe>): number[] {
  return trained.flatMap(({ version, groups }) => groups.map((group) => version - began.get(group)!));
}
