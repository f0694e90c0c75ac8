/** An attempt at a task of a Python environment, as a worker makes it. */

import { contextOver } from '../../../activities/task-context.ts';
import type { Sandbox, SandboxProvider } from '../../../sandboxes/sandbox.ts';
import type { StepResult, Task, TaskContext } from '../../../tasks/environment.ts';

let owners = 0;

export class Attempt {
  task: Task;
  readonly #name = `attempt-${(owners += 1)}`;
  readonly #sandbox: Sandbox | undefined;
  state: unknown;
  #turn = 0;

  constructor(task: Task, sandbox?: Sandbox) {
    this.task = task;
    this.#sandbox = sandbox;
  }

  #context(place: string, execution = 1): TaskContext {
    const named = {
      key: 'python-test-0',
      id: `${this.#name}/${place}`,
      execution,
      signal: new AbortController().signal,
    };
    const ask = () => Promise.reject(new Error('no judge'));
    const sandboxes = this.#sandbox ? { main: this.#sandbox } : {};
    const provider = undefined as unknown as SandboxProvider;
    return contextOver(sandboxes, provider, { ...named, ask, deadline: Number.POSITIVE_INFINITY });
  }

  async start() {
    const started = await this.task.start!(this.#context('start'));
    this.state = started.state;
    return started;
  }

  /** The state goes through JSON, as a record's does. */
  async step(action: string): Promise<StepResult> {
    this.#turn += 1;
    const before = JSON.parse(JSON.stringify(this.state)) as unknown;
    const result = await this.task.step!(this.#context(`${this.#turn}/step`), before, action);
    this.state = result.state;
    return result;
  }

  grade() {
    const work = {
      transcript: [],
      answer: '',
      finish: 'done' as never,
      turns: 1,
      artifact: new Uint8Array(),
      turnRewards: [],
    };
    return this.task.grade(this.#context('grade'), { ...work, state: this.state });
  }
}
