/**
 * Plays episodes in the task's sandbox: each step is a new process there, which gets the recorded actions before its
 * own. What the environment runs of a policy's code stays in the sandbox.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { SandboxFile } from '../../sandboxes/sandbox.ts';
import type { TaskContext } from '../environment.ts';
import { answerOf, type Answer, begun, checkReplay, continued, type Episode } from './episode.ts';
import type { Player, Recipe } from './on-worker.ts';
import { ADAPTER, checkedReply, PythonFailed, PythonTimedOut, type Reply } from './python-process.ts';

/** The folder of the adapter and of the environment's modules in the sandbox. */
export const HERE = '/tmp/longhaul';
const OUTPUT_BYTES = 32 << 20;

/** The adapter, and the programs that it imports. */
export const adapterFiles = (): SandboxFile[] =>
  readdirSync(dirname(ADAPTER))
    .filter((name) => name.endsWith('.py'))
    .map((name) => ({ path: `${HERE}/${name}`, content: readFileSync(join(dirname(ADAPTER), name), 'utf8') }));

export class InSandbox implements Player {
  readonly #ctx: TaskContext;
  readonly #seconds: number;
  readonly #python: string;
  readonly #folders: readonly string[];

  /** `folders`: of modules, as the sandbox sees them. */
  constructor(ctx: TaskContext, python: string, folders: readonly string[], seconds: number) {
    this.#ctx = ctx;
    this.#python = python;
    this.#folders = folders;
    this.#seconds = seconds;
  }

  async start(recipe: Recipe) {
    const [answer] = await this.#replay(recipe, []);
    if (answer === undefined) throw new PythonFailed('init gave no reply');
    return { episode: begun(answer), answer };
  }

  async step(recipe: Recipe, _owner: string, before: Episode, action: string) {
    const { pickle, actions } = before;
    const replies = await this.#replay(recipe, pickle === undefined ? [...actions, action] : [action], pickle);
    const answer = replies.at(-1);
    if (answer === undefined) throw new PythonFailed('step gave no reply');
    if (pickle === undefined)
      for (const [i, earlier] of replies.slice(0, -1).entries()) checkReplay(recipe.env, before, i, earlier);
    return { episode: continued(before, action, answer), answer };
  }

  /** The replies to `init` and to each action; those to the actions alone if the object is loaded. */
  async #replay(recipe: Recipe, actions: readonly string[], pickle?: string): Promise<Answer[]> {
    const { id, execution } = this.#ctx;
    const sandbox = await this.#ctx.sandbox();
    const callId = `${id}/${execution}`;
    const path = `${HERE}/request.json`;
    const content = Buffer.from(JSON.stringify({ ...recipe, actions, pickle }));
    await sandbox.write({ callId: `${callId}/request`, path, content, note: 'request' });
    const marker = randomBytes(16).toString('hex');
    const limit = this.#seconds * (actions.length + 1);
    const result = await sandbox.exec({
      callId: `${callId}/${marker}`,
      command:
        `cd ${HERE} && PYTHONHASHSEED=0 exec ${this.#python} -u -B -X utf8 adapter.py replay ${path} ${marker} ` +
        `${this.#folders.join(' ')}`,
      timeoutMs: limit * 1000,
      outputLimit: OUTPUT_BYTES,
      fresh: true,
    });
    if (result.timedOut)
      throw new PythonTimedOut(`${actions.length} actions took more than ${limit} s (task.options.seconds)`);
    const at = result.output.lastIndexOf(`\n${marker}\n`);
    if (at < 0)
      throw new PythonFailed(
        `the process of Python gave no reply (${result.signal ?? `exit code ${String(result.exitCode)}`}): ` +
          `${result.output.slice(-500)}`,
      );
    const [line = ''] = result.output.slice(at + marker.length + 2).split('\n', 1);
    const replies = (JSON.parse(line) as Reply[]).map(checkedReply);
    return (pickle === undefined ? replies : replies.slice(1)).map(answerOf);
  }
}
