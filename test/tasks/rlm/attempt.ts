/** One attempt at a task of `rlm` in a real sandbox, without a store: states go through JSON, as records do. */

import { afterAll } from 'vitest';
import { contextOver } from '../../../activities/task-context.ts';
import type { Message } from '../../../protocol/message.ts';
import type { Sandbox, SandboxProvider } from '../../../sandboxes/sandbox.ts';
import type { Question, StepResult, Task, TaskContext } from '../../../tasks/environment.ts';
import { rlmEnvironment } from '../../../tasks/rlm/environment.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { openedWith, workOf } from '../support/answered.ts';

export const bench = await openBench();
export const RECORD = {
  prompt: [{ role: 'user', content: 'What is the capital of France?' }],
  reward_spec: { ground_truth: 'Paris' },
  extra_info: { context_text: 'The capital of France is Paris.' },
};

export const taskOf = (options: Record<string, unknown> = {}, record: unknown = RECORD): Promise<Task> =>
  openedWith(rlmEnvironment, [record], options);

export type Answer = (question: string, judge: string | undefined) => string | Promise<string>;
const noJudge: Answer = () => Promise.reject(new Error('no judge is asked here'));

let attempts = 0;
const opened: Sandbox[] = [];
afterAll(() => {
  for (const sandbox of opened) sandbox.close();
});

export class Attempt {
  readonly task: Task;
  readonly name: string;
  readonly #answer: Answer;
  sandbox: Sandbox;
  state: unknown;
  turn = 0;

  private constructor(task: Task, name: string, sandbox: Sandbox, answer: Answer) {
    this.task = task;
    this.name = name;
    this.sandbox = sandbox;
    this.#answer = answer;
  }

  static async sandboxOf(task: Task, id: string): Promise<Sandbox> {
    const { network: _, ...request } = task.sandboxes!['main']!;
    const limits = { memoryMiB: 512, processes: 32, diskMiB: 64 };
    const sandbox = await bench.provider.create({ ...request, id, ttlSeconds: 300, limits });
    opened.push(sandbox);
    return sandbox;
  }

  /** A started one. */
  static async begin(task: Task, answer: Answer = noJudge): Promise<Attempt> {
    const name = `rlm-${(attempts += 1)}`;
    const attempt = new Attempt(task, name, await Attempt.sandboxOf(task, name), answer);
    await attempt.start();
    return attempt;
  }

  context(place: string): TaskContext {
    const ask = async (question: Question, { judge }: { readonly judge?: string } = {}): Promise<string> =>
      this.#answer(typeof question === 'string' ? question : JSON.stringify(question), judge);
    const named = {
      key: 'rlm-test-0',
      id: `${this.name}/${place}`,
      execution: 1,
      signal: new AbortController().signal,
    };
    const provider = undefined as unknown as SandboxProvider;
    return contextOver({ main: this.sandbox }, provider, { ...named, ask, deadline: Number.POSITIVE_INFINITY });
  }

  async start(): Promise<readonly Message[]> {
    const { state, messages = [] } = await this.task.start!(this.context('start'));
    this.state = state;
    return messages;
  }

  /** `turn`: again, with the state before it. */
  async step(message: string, turn = (this.turn += 1)): Promise<StepResult> {
    const before = JSON.parse(JSON.stringify(this.state)) as unknown;
    const result = await this.task.step!(this.context(`${turn}/step`), before, message);
    this.state = result.state;
    return result;
  }

  /** What the policy reads after a block. */
  async run(code: string): Promise<string> {
    return (await this.step(`\`\`\`repl\n${code}\n\`\`\``)).messages[0]?.content ?? '';
  }

  grade() {
    return this.task.grade(this.context('grade'), workOf('', { state: this.state, turns: this.turn }));
  }
}
