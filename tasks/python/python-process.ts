/**
 * A process of Python with a user's environments. It is started when it is first asked, and may end at any time: what
 * it held is then made again by the caller that needs it. Requests and replies have descriptors of their own.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { packageRoot } from '#setup/paths.mjs';

/** The environment's Python code raised, or returned what cannot be used. */
export class PythonFailed extends Error {
  override readonly name = 'PythonFailed';
}

/** The environment's Python code did not return in its time. */
export class PythonTimedOut extends Error {
  override readonly name = 'PythonTimedOut';
}

/** The process ended. `blame`: this request may be the cause. */
export class PythonEnded extends Error {
  override readonly name = 'PythonEnded';
  readonly blame: boolean;

  constructor(message: string, blame: boolean) {
    super(message);
    this.blame = blame;
  }
}

/** What the adapter replied. */
export type Reply = Readonly<Record<string, unknown>>;

/** Errors: `PythonFailed`, with Python's file and line, if the reply says so. */
export function checkedReply(reply: Reply): Reply {
  const { failed, place } = reply;
  if (failed === undefined) return reply;
  const why = typeof failed === 'string' ? failed : 'it failed';
  throw new PythonFailed(typeof place === 'string' ? `${why} (${place})` : why);
}

export const ADAPTER = join(packageRoot, 'tasks/python/programs/adapter.py');
const MOST_REPLY = 64 << 20;
const TAIL = 4000;

/** Variables that a process gets. Keys and other secrets of the worker are not among them. */
const PASSED = /^(?:PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|LANG|LC_\w+|LD_LIBRARY_PATH)$/;

interface Waiting {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export interface Interpreter {
  /** The program. */
  readonly python: string;
  /** Folders that modules are imported from, before all others. */
  readonly path: readonly string[];
}

export class PythonProcess {
  readonly #child: ChildProcess;
  readonly #requests: Writable;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  #printed = '';
  #rest: string[] = [];
  #restLength = 0;
  #ended = false;

  constructor({ python, path }: Interpreter) {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name)));
    this.#child = spawn(python, ['-u', '-X', 'utf8', ADAPTER, 'serve', '3', '4', ...path], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
      env: { ...env, PYTHONHASHSEED: '0' },
      // A group of its own, so that it ends with all that it started.
      detached: true,
    });
    const [, out, err, requests, replies] = this.#child.stdio as [null, Readable, Readable, Writable, Readable];
    this.#requests = requests;
    for (const stream of [out, err])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#printed = (this.#printed + text).slice(-TAIL);
      });
    replies.setEncoding('utf8').on('data', (text: string) => this.#read(text));
    requests.on('error', () => undefined);
    this.#child.on('error', (error) => this.#end(error.message, true));
    this.#child.on('close', (code, signal) =>
      this.#end(`it ended with ${signal ?? `exit code ${String(code)}`}`, true),
    );
    // It must not keep this process alive; it ends when its requests do.
    this.#child.unref();
    for (const stream of [out, err, requests, replies]) (stream as unknown as { unref?: () => void }).unref?.();
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Errors: `PythonFailed`; `PythonTimedOut` after `seconds`, which ends the process; `PythonEnded`. */
  async request(body: Readonly<Record<string, unknown>>, seconds: number): Promise<Reply> {
    if (this.#ended) throw new PythonEnded('it had ended', false);
    const id = (this.#next += 1);
    const reply = await new Promise<Reply>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new PythonTimedOut(`${String(body['do'])} took more than ${seconds} s (task.options.seconds)`));
        this.#end('another environment in it did not return in its time', false);
      }, seconds * 1000);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#requests.write(`${JSON.stringify({ id, ...body })}\n`);
    });
    return checkedReply(reply);
  }

  /** Ends the process and what it started. */
  close(): void {
    this.#end('it was closed', false);
  }

  #read(text: string): void {
    const lines = text.split('\n');
    const [first = ''] = lines;
    this.#rest.push(first);
    this.#restLength += first.length;
    if (this.#restLength > MOST_REPLY) return this.#end(`a reply has more than ${MOST_REPLY >> 20} MiB`, true);
    if (lines.length === 1) return;
    const whole = [this.#rest.join(''), ...lines.slice(1, -1)];
    this.#rest = [lines.at(-1) ?? ''];
    this.#restLength = this.#rest[0]?.length ?? 0;
    for (const line of whole) this.#answer(line);
  }

  #answer(line: string): void {
    let reply: Reply;
    try {
      reply = JSON.parse(line) as Reply;
    } catch {
      return this.#end('its replies cannot be read', true);
    }
    const id = Number(reply['id']);
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    waiting.resolve(reply);
  }

  #end(why: string, blame: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
    const printed = this.#printed.trim().split('\n').slice(-5).join('\n');
    const message = `the process of Python: ${why}${printed === '' ? '' : `; it printed last: ${printed}`}`;
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(new PythonEnded(message, blame));
    }
    this.#waiting.clear();
  }
}

const processes = new Map<string, PythonProcess>();

/** The process of this worker for an interpreter and its folders. */
export function processOf(interpreter: Interpreter): PythonProcess {
  const key = JSON.stringify([interpreter.python, interpreter.path]);
  const known = processes.get(key);
  if (known !== undefined && !known.ended) return known;
  const made = new PythonProcess(interpreter);
  processes.set(key, made);
  return made;
}
