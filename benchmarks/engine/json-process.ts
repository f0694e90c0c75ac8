/** A child process that answers one line of JSON with one line of JSON, in order; each answer has a deadline. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';

export interface JsonCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** A call that failed in the child, or that the child did not answer before it ended. */
export class CallFailed extends Error {
  override readonly name = 'CallFailed';
}

export class JsonProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #reader: Interface;
  #said = '';

  constructor({ command, args, env }: JsonCommand) {
    this.#child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stdin?.on('error', () => undefined);
    this.#child.on('error', (error) => (this.#said += error.message));
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = `${this.#said}${text}`.slice(-2000);
    });
    if (this.#child.stdout === null) throw new CallFailed(`${command} has no output`);
    this.#reader = createInterface({ input: this.#child.stdout });
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  /** Errors: `CallFailed`, with the child's last output. */
  async call<T>(name: string, given: object, limitMs = 600_000): Promise<T> {
    this.#child.stdin?.write(`${JSON.stringify({ call: name, ...given })}\n`);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    try {
      const { done, value } = await this.#lines.next();
      if (done === true)
        throw new CallFailed(
          `${name} was not answered within ${limitMs / 1000} s, or its process ended: ${this.#said.trim()}`,
        );
      const answer = JSON.parse(value) as T & { readonly error?: string };
      if (answer.error !== undefined) throw new CallFailed(`${name}: ${answer.error}`);
      return answer;
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(timer);
    this.#reader.close();
  }
}
