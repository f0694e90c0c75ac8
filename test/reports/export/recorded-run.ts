/** The records of a run with two completed steps, as its activities would have written them. */

import type { Command } from '../../../protocol/command.ts';
import type { Message } from '../../../protocol/message.ts';
import type {
  ActRecord,
  BatchManifest,
  GenerateRecord,
  OutcomeRecord,
  RunRecord,
  StepEntry,
} from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RolloutEnd } from '../../../reports/rollout-ends.ts';
import type { Store } from '../../../store/store.ts';
import { someTasks } from '../../support/some-tasks.ts';

export const RUN = 'r';

/** A turn that samples `sampled` after `appended`. */
export function turn(
  appended: number[],
  sampled: number[],
  content: string,
  over: Partial<GenerateRecord> = {},
): GenerateRecord {
  const command: Command = { do: 'reply', message: 'more' };
  return {
    version: 0,
    appended,
    reset: false,
    sampled,
    logprobs: sampled.map((id) => -id / 8),
    temperature: 1,
    end: 'stop',
    parsed: { kind: 'no-call', content },
    command,
    ...over,
  };
}

export const calling = (name: string, given: Record<string, unknown>, content = ''): Partial<GenerateRecord> => ({
  parsed: { kind: 'calls', content, calls: [{ name, arguments: given }] },
  command: name === 'finish' ? { do: 'finish' } : { do: 'act' },
});

export const answer = (name: string, content: string): Message => ({ role: 'tool', name, content });

export interface Ended {
  readonly reward?: number;
  readonly finish?: OutcomeRecord['finish'];
  readonly failure?: OutcomeRecord['failure'];
  readonly turns?: readonly GenerateRecord[];
  /** By turn. */
  readonly acts?: Readonly<Record<number, readonly Message[]>>;
  /** What the environment's steps gave, by turn. */
  readonly rewards?: Readonly<Record<number, number>>;
  /** Why training masked it. */
  readonly masked?: string;
}

/** Records a rollout of a step. Returns its id. */
export async function putRollout(
  store: Store,
  batch: string,
  task: string,
  sample: number,
  end: Ended,
): Promise<string> {
  const { reward, finish = 'finish-tool', failure = null, turns = [], acts = {}, rewards = {}, masked } = end;
  const rollout = `${batch}/${task}/${sample}`;
  const attempt = { run: RUN, rollout, attempt: 1, task };
  for (const [i, record] of turns.entries()) await store.putOnce<GenerateRecord>(keys.generate(attempt, i + 1), record);
  for (const [at, messages] of Object.entries(acts))
    await store.putOnce<ActRecord>(keys.act(attempt, Number(at)), { messages });
  for (const [at, one] of Object.entries(rewards))
    await store.putOnce<ActRecord>(keys.act(attempt, Number(at)), { messages: [], reward: one });
  await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
    rollout,
    task,
    attempt: 1,
    turns: turns.length,
    status: failure === null ? 'graded' : 'failed',
    reward: failure === null ? (reward ?? 0) : null,
    passed: (reward ?? 0) === 1,
    finish: failure === null ? finish : null,
    failure,
    reason: failure === null ? `graded ${reward}` : 'it broke',
  });
  const fate = failure === null && masked === undefined ? 'trained' : 'masked';
  await store.putOnce<RolloutEnd>(keys.end(rollout), {
    run: RUN,
    rollout,
    attempt: 1,
    event: fate,
    at: '2026-01-01T00:00:00.000Z',
    ...(fate === 'masked' && { detail: masked ?? failure ?? 'internal' }),
  });
  return rollout;
}

export async function putRun(store: Store, dir: string): Promise<void> {
  await store.putOnce(keys.run(RUN), {
    run: RUN,
    runDir: dir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: '/p', parameters: 1, vocabulary: 1 },
    task: { name: 'swe-mini', train: 3, heldOut: 0 },
    tasks: someTasks,
  } satisfies RunRecord);
}

/** Records that a step is complete, with these rollouts by task. */
export async function putStep(store: Store, step: number, groups: BatchManifest['groups']): Promise<void> {
  const batch = `train/${RUN}/step-${step}`;
  await store.putOnce<BatchManifest>(keys.manifest(batch, groups.length), { run: RUN, batch, groups });
  await store.putOnce(keys.step(RUN, step), { record: { step } } as StepEntry);
}

/** Step 1: two groups with each kind of end. Step 2: one rollout with a tool call. A held-out rollout beside them. */
export async function recordRun(store: Store, dir: string): Promise<void> {
  await putRun(store, dir);
  const [one, two] = [`train/${RUN}/step-1`, `train/${RUN}/step-2`];
  const [first, second] = ['swe-mini-train-0', 'swe-mini-train-1'];
  const a = [
    await putRollout(store, one, first, 0, {
      reward: 1,
      turns: [
        turn([1, 2, 3], [4, 5], '', calling('bash', { command: 'ls' }, 'I look.')),
        turn([6], [7, 8], '', calling('finish', { answer: 'done' })),
      ],
      acts: { 1: [answer('bash', 'a.py')] },
    }),
    await putRollout(store, one, first, 1, {
      reward: 0,
      finish: 'max-turns',
      turns: [turn([1, 2, 3], [4], 'hm'), turn([9, 9], [5], 'hm', { reset: true })],
    }),
  ];
  const b = [
    await putRollout(store, one, second, 0, { failure: 'sandbox-unavailable' }),
    await putRollout(store, one, second, 1, { reward: 0.5, finish: 'answer', turns: [turn([1, 2], [3, 4, 5], 'so')] }),
    await putRollout(store, one, second, 2, {
      reward: 1,
      finish: 'answer',
      masked: 'too-stale',
      turns: [turn([1, 2], [6], 'old')],
    }),
  ];
  await putStep(store, 1, [
    { task: first, rollouts: a },
    { task: second, rollouts: b },
  ]);
  const c = await putRollout(store, two, first, 0, { reward: 1, finish: 'answer', turns: [turn([1, 2], [3], 'late')] });
  await putStep(store, 2, [{ task: first, rollouts: [c] }]);
  await putRollout(store, `train/${RUN}/eval-0-sampled`, 'swe-mini-held-out-0', 0, {
    reward: 1,
    turns: [turn([1], [2], 'held out')],
  });
}

/** Step 1: rollouts whose turns have rewards, and one without. Step 2: one without. */
export async function recordTurnRewards(store: Store, dir: string): Promise<void> {
  await putRun(store, dir);
  const step = { command: { do: 'step' } } as const;
  const [one, two] = [`train/${RUN}/step-1`, `train/${RUN}/step-2`];
  const task = 'swe-mini-train-0';
  const rollouts = [
    await putRollout(store, one, task, 0, {
      reward: 1,
      finish: 'done',
      turns: [turn([1, 2], [3, 4], 'a', step), turn([5], [6, 7], 'b', step), turn([8], [9], 'c', step)],
      rewards: { 1: 0.25, 2: -0.5 },
    }),
    // The template rewrote the context before the second turn: two sequences.
    await putRollout(store, one, task, 1, {
      reward: 0.5,
      finish: 'done',
      turns: [turn([1, 2], [3], 'a', step), turn([4, 4], [5, 6], 'b', { ...step, reset: true })],
      rewards: { 1: 0, 2: 0.125 },
    }),
    await putRollout(store, one, task, 2, { reward: 0.25, finish: 'answer', turns: [turn([1, 2], [3], 'plain')] }),
    await putRollout(store, one, task, 3, {
      failure: 'grader-failed',
      turns: [turn([1, 2], [3, 3], 'x', step)],
      rewards: { 1: 4 },
    }),
  ];
  await putStep(store, 1, [{ task, rollouts }]);
  const plain = { reward: 0.25, finish: 'answer', turns: [turn([1, 2], [3], 'plain')] } as const;
  await putStep(store, 2, [{ task, rollouts: [await putRollout(store, two, task, 0, plain)] }]);
}
