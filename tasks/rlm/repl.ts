/**
 * A REPL in the task's sandbox. Each request to it is a journalled call: a repeated step gets the same replies, and
 * runs nothing again. A block that asks a model waits in the sandbox until the answers are written to it.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { z } from 'zod';
import type { ExecResult, Sandbox, SandboxFile } from '../../sandboxes/sandbox.ts';
import type { TaskContext } from '../environment.ts';

const PROGRAM = join(packageRoot, 'tasks/rlm/programs/repl.py');
/** The REPL's folder in the sandbox. */
export const HERE = '/tmp/longhaul-rlm';
const OUTPUT_BYTES = 32 << 20;
const LAUNCH_MS = 120_000;
/** For a block that catches the end of its time, or cannot be interrupted. */
const GRACE_MS = 10_000;
/** UTF-16 units: `repl.py` bounds what it sends, and a block may take its place. */
const MOST_SHOWN = 41_000;
const MOST_TEXT = 2_000_000;
/** Exit codes of `repl.py send`. */
const NOT_RUNNING = 90;
const ENDED = 91;

export interface ReplSettings {
  /** Of a block. */
  readonly seconds: number;
  /** The judge that a block can ask. Absent: none. */
  readonly model?: string | undefined;
  /** Prompts that a turn may ask. */
  readonly mostQueries: number;
  readonly builtins: 'skyrl' | 'all';
}

const launched = z.object({ context: z.string(), lengths: z.array(z.int()), tools: z.array(z.string()) });
/** What a REPL holds when it starts. */
export type Launched = z.output<typeof launched>;

const reply = z.union([
  z.object({ ask: z.array(z.string()) }),
  z.object({ shown: z.string(), final: z.string().nullable() }),
]);

/** A block's end. */
export interface Ran {
  /** What the policy sees. */
  readonly shown: string;
  /** The answer that the message gives by FINAL_VAR. `null`: it gives none. */
  readonly final: string | null;
  /** Prompts that were asked. */
  readonly queries: number;
}

/** The REPL cannot start: the task's own file is wrong, or the sandbox has no Python. */
export class ReplFailed extends Error {
  override readonly name = 'ReplFailed';
}

/** The files of a sandbox that has a REPL. `tools`: the source of the task's own functions. */
export function replFiles(context: unknown, settings: ReplSettings, tools: string | undefined): SandboxFile[] {
  const { seconds, model, mostQueries, builtins } = settings;
  const setup = { seconds, mostQueries, builtins, hasModel: model !== undefined };
  const file = (name: string, content: string): SandboxFile => ({ path: `${HERE}/${name}`, content });
  return [
    file('repl.py', readFileSync(PROGRAM, 'utf8')),
    file('setup.json', JSON.stringify(setup)),
    file('context.json', JSON.stringify(context)),
    ...(tools === undefined ? [] : [file('tools.py', tools)]),
  ];
}

/** By its name: the class belongs to those who ask the server. */
const isRefusal = (error: unknown): error is Error => error instanceof Error && error.name === 'QuestionRefused';

export class Repl {
  readonly #ctx: TaskContext;
  readonly #sandbox: Sandbox;
  readonly #settings: ReplSettings;
  #calls = 0;

  /** For one execution of `start` or `step`: calls are numbered in their order. */
  constructor(ctx: TaskContext, sandbox: Sandbox, settings: ReplSettings) {
    this.#ctx = ctx;
    this.#sandbox = sandbox;
    this.#settings = settings;
  }

  /** Starts the REPL, without variables of the policy. Everything that ran before is ended. Errors: `ReplFailed`. */
  async launch(): Promise<Launched> {
    const { output, exitCode } = await this.#python('launch', LAUNCH_MS, true);
    const parsed = exitCode === 0 ? launched.safeParse(jsonOf(output)) : undefined;
    if (parsed?.success) return parsed.data;
    const { error } = (jsonOf(output) ?? {}) as { readonly error?: unknown };
    throw new ReplFailed(`the REPL did not start: ${typeof error === 'string' ? error : output.slice(-1000)}`);
  }

  /** Runs a block. `variable`: the name in the message's own FINAL_VAR. Errors: `ReplFailed`; those of asking. */
  async run(code: string, variable: string | undefined): Promise<Ran> {
    const request = { run: code, variable: variable ?? null };
    const first = await this.#exchange(request);
    if (first.exitCode !== NOT_RUNNING) return this.#followed(first);
    await this.launch();
    const ran = await this.#followed(await this.#exchange(request));
    return { ...ran, shown: `[The REPL had ended, and was started again without its variables.]\n${ran.shown}` };
  }

  async #followed(first: ExecResult): Promise<Ran> {
    let queries = 0;
    for (let result = first; ;) {
      const parsed = result.exitCode === 0 ? reply.safeParse(jsonOf(result.output)) : undefined;
      if (!parsed?.success) return { shown: await this.#afterEnd(result), final: null, queries };
      if ('shown' in parsed.data) {
        const { shown, final } = parsed.data;
        return { shown: shown.slice(0, MOST_SHOWN), final: final?.slice(0, MOST_TEXT) ?? null, queries };
      }
      const { ask } = parsed.data;
      queries += ask.length;
      const { model, mostQueries } = this.#settings;
      const isForged = model === undefined || queries > mostQueries || ask.join('').length > MOST_TEXT;
      // What a block forges costs it its own REPL.
      if (isForged) return { shown: await this.#afterEnd(result), final: null, queries };
      result = await this.#exchange({ answers: await this.#answers(ask, model) });
    }
  }

  /** A question that the server refuses is an answer. */
  async #answers(prompts: readonly string[], judge: string) {
    return Promise.all(
      prompts.map(async (prompt) => {
        try {
          return { text: await this.#ctx.ask(prompt, { judge }) };
        } catch (error) {
          if (isRefusal(error)) return { error: error.message };
          throw error;
        }
      }),
    );
  }

  /** Starts the REPL that the block has ended. Returns what the policy reads. */
  async #afterEnd({ timedOut, exitCode, outOfMemory }: ExecResult): Promise<string> {
    await this.launch();
    const why = timedOut
      ? `Timeout after ${Math.floor(this.#settings.seconds)} seconds`
      : `The REPL ended${outOfMemory ? ' for want of memory' : exitCode === ENDED ? '' : ' without a reply'}`;
    return `\n${why}. It was started again without its variables.`;
  }

  async #exchange(request: unknown): Promise<ExecResult> {
    const content = Buffer.from(JSON.stringify(request));
    await this.#sandbox.write({ callId: this.#callId('request'), path: `${HERE}/request.json`, content, note: '' });
    return this.#python('send', this.#settings.seconds * 1000 + GRACE_MS);
  }

  #python(verb: 'launch' | 'send', timeoutMs: number, alone = false): Promise<ExecResult> {
    return this.#sandbox.exec({
      callId: this.#callId(verb),
      command: `cd ${HERE} && PYTHONHASHSEED=0 exec python3 -s -B -X utf8 ${HERE}/repl.py ${verb} ${HERE}`,
      timeoutMs,
      outputLimit: OUTPUT_BYTES,
      ...(alone ? { alone: true } : { fresh: true }),
    });
  }

  #callId(what: string): string {
    this.#calls += 1;
    return `${this.#ctx.id}/${what}-${this.#calls}`;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
