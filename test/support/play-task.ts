/** Plays a task without a sandbox in this process: its `step` and `grade` as a rollout calls them. */

import type { Message } from '../../protocol/message.ts';
import type { StepResult, Task, TaskContext, Work } from '../../tasks/environment.ts';

export const taskContext = {
  key: 'source-train-0',
  signal: new AbortController().signal,
  deadline: Number.POSITIVE_INFINITY,
} as TaskContext;

export interface Played {
  /** The answer to each message. */
  readonly steps: readonly StepResult[];
  readonly verdict: Awaited<ReturnType<Task['grade']>>;
}

/** `messages`: the policy's. A call of `finish` ends the task with its answer. */
export async function play(task: Task, messages: readonly Message[]): Promise<Played> {
  const transcript: Message[] = [...task.messages];
  const steps: StepResult[] = [];
  let state: unknown;
  let finish: Work['finish'] = 'max-turns';
  let answer = '';
  for (const message of messages) {
    transcript.push(message);
    const calls = 'toolCalls' in message ? (message.toolCalls ?? []) : [];
    const last = calls.find(({ name }) => name === 'finish');
    if (last !== undefined) {
      const given = last.arguments['answer'];
      [finish, answer] = ['finish-tool', typeof given === 'string' ? given : ''];
      break;
    }
    if (task.step === undefined) continue;
    const step = await task.step(taskContext, state, message.content);
    steps.push(step);
    ({ state } = step);
    transcript.push(...step.messages);
    if (step.done) {
      finish = 'done';
      break;
    }
  }
  const work: Work = {
    transcript,
    answer,
    finish,
    turns: messages.length,
    artifact: new Uint8Array(),
    state,
    turnRewards: steps.map(({ reward = 0 }) => reward),
  };
  return { steps, verdict: await task.grade(taskContext, work) };
}

export const says = (content: string): Message => ({ role: 'assistant', content });
