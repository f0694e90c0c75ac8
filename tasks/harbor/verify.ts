/**
 * Runs a verifier in a sandbox and reads its rewards. The agent has ended: whatever it left running is ended first,
 * what it wrote where the verifier's files belong is removed, and only then the tests are uploaded.
 *
 * What the verifier itself runs of the agent's work has the verifier's own rights, here as upstream. See docs.
 */

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename, posix } from 'node:path';
import type { ExecResult, Sandbox } from '../../sandboxes/sandbox.ts';
import { shellLine } from './compose.ts';
import { filesIn, type FolderFile } from './folder.ts';
import type { Verifier } from './read-task.ts';
import { MOST_REWARD_BYTES, rewardsOf, rewardsOfPytest, rewardsOfSweBench, type Verified } from './rewards.ts';
import type { Healthcheck } from './task-toml.ts';
import type { Variables } from './templates.ts';

const PREPARE_MS = 120_000;
const OUTPUT_BYTES = 1 << 20;
/** Characters of the verifier's output in a verdict's reason. */
const SHOWN = 300;

/** Names calls: each gets a key of its own, the same in an execution that repeats this one. */
export class Calls {
  readonly #sandbox: Sandbox;
  readonly #prefix: string;
  #count = 0;

  constructor(sandbox: Sandbox, prefix: string) {
    this.#sandbox = sandbox;
    this.#prefix = prefix;
  }

  get #key(): string {
    this.#count += 1;
    return `${this.#prefix}/${this.#count}`;
  }

  /** In a new shell; `alone`: after everything that ran was ended. */
  async exec(command: string, timeoutMs: number, alone: boolean, outputLimit = OUTPUT_BYTES): Promise<ExecResult> {
    const call = { callId: this.#key, command, timeoutMs, outputLimit };
    return await this.#sandbox.exec({ ...call, ...(alone ? { alone: true } : { fresh: true }) });
  }

  /** Uploads files below a folder. Returns the error of the first that cannot be written. */
  async upload(files: readonly FolderFile[], folder: string): Promise<string | undefined> {
    for (const { path, content } of files) {
      const target = posix.join(folder, path);
      const { error } = await this.#sandbox.write({ callId: this.#key, path: target, content, note: '' });
      if (error !== undefined) return `${target}: ${error}`;
    }
    const scripts = files.filter(({ mode }) => (mode & 0o100) !== 0).map(({ path }) => posix.join(folder, path));
    if (scripts.length === 0) return undefined;
    const { exitCode, output } = await this.exec(`chmod +x ${shellLine(scripts)}`, PREPARE_MS, false, 1000);
    return exitCode === 0 ? undefined : output.trim();
  }

  async read(path: string, most: number) {
    return await this.#sandbox.read(path, most);
  }
}

/** Empties the folders of the format, also of what its owner closed to itself. */
export const EMPTIED = [
  'for place in /tests /logs/verifier; do',
  '  [ -L "$place" ] && rm -f "$place"',
  '  [ -d "$place" ] || { rm -f "$place"; mkdir -p "$place"; }',
  '  chmod -R u+rwX "$place" 2>/dev/null',
  '  find "$place" -mindepth 1 -delete || exit 1',
  'done',
  'mkdir -p /logs/agent /logs/artifacts',
].join('\n');

/** Later folders replace files of earlier ones. */
function testsOf({ tests, also }: Verifier): FolderFile[] {
  const byPath = new Map(tests.flatMap(filesIn).map((file) => [file.path, file]));
  for (const file of also)
    byPath.set(basename(file), { path: basename(file), content: readFileSync(file), mode: 0o755 });
  return [...byPath.values()];
}

const exportsOf = (env: Variables): string =>
  Object.entries(env)
    .map(([name, value]) => `export ${shellLine([`${name}=${value}`])}`)
    .join('\n');

export interface Verifying {
  readonly sandbox: Sandbox;
  readonly verifier: Verifier;
  /** Filled in. */
  readonly env: Variables;
  /** Prefix of call ids. */
  readonly id: string;
  /** True: what the agent left running stays, for tasks whose work is a running server. */
  readonly keeps: boolean;
}

const none = (reason: string): Verified => ({ rewards: { reward: 0 }, reason });

/** A home of the verifier's own: what the agent put into its home would otherwise run in the verifier's programs. */
function runLine({ verifier: { script }, env }: Verifying): string {
  const home = `/tmp/verifier-${randomUUID()}`;
  return [
    `mkdir -p ${home} && export HOME=${home}`,
    'unset BASH_ENV ENV PYTHONPATH PYTHONSTARTUP PYTHONHOME LD_PRELOAD LD_LIBRARY_PATH',
    exportsOf(env),
    `exec bash /tests/${shellLine([script])}`,
  ].join('\n');
}

/**
 * The rewards of the work in the sandbox. Errors: those of the sandbox; `Error` if the machine may be at fault, so that
 * the grading is repeated.
 */
export async function verify(work: Verifying): Promise<Verified> {
  const { sandbox, verifier, id, keeps } = work;
  const calls = new Calls(sandbox, id);
  const cleared = await calls.exec(EMPTIED, PREPARE_MS, !keeps, 2000);
  if (cleared.timedOut) throw new Error(`the folders of the verifier could not be emptied in time in ${sandbox.id}`);
  if (cleared.exitCode !== 0)
    return none(`what the agent left in /tests or /logs cannot be removed: ${cleared.output.slice(0, SHOWN)}`);
  const failed = await calls.upload(testsOf(verifier), '/tests');
  if (failed !== undefined) {
    // The agent may have filled the disk. A verifier that is larger than its place would fail in each sandbox.
    return none(`the tests cannot be uploaded: ${failed.slice(0, SHOWN)}`);
  }
  const run = await calls.exec(runLine(work), verifier.seconds * 1000, !keeps);
  const how = run.timedOut
    ? `not in time (${verifier.seconds} s)`
    : `${verifier.script} ended with ${run.exitCode ?? run.signal}`;
  // Ends what the verifier left, so that nothing writes any more while the rewards are read.
  if (!keeps) await calls.exec(':', PREPARE_MS, true, 100);
  const verified = run.timedOut ? none('') : await rewardsIn(calls, verifier, run.output);
  const tail = run.output.trim().slice(-SHOWN);
  const good = (verified.rewards['reward'] ?? 1) >= 1;
  return {
    rewards: verified.rewards,
    reason: [verified.reason, how, ...(good ? [] : [tail])].filter((part) => part !== '').join('; '),
  };
}

async function rewardsIn(calls: Calls, { kind }: Verifier, output: string): Promise<Verified> {
  if (kind === 'pytest') return rewardsOfPytest(output);
  if (kind === 'swebench') return rewardsOfSweBench(output);
  const json = await calls.read('/logs/verifier/reward.json', MOST_REWARD_BYTES);
  return rewardsOf(json, await calls.read('/logs/verifier/reward.txt', MOST_REWARD_BYTES));
}

/** Removes the tests and what they wrote, before the agent continues. Errors: `Error` if that fails. */
export async function clearTests(sandbox: Sandbox, id: string, keeps: boolean): Promise<void> {
  const { exitCode, output } = await new Calls(sandbox, id).exec(EMPTIED, PREPARE_MS, !keeps, 1000);
  if (exitCode !== 0) throw new Error(`the tests of a step could not be removed: ${output}`);
}

/** Runs a command until it succeeds. Returns why it never did. */
export async function untilHealthy(sandbox: Sandbox, check: Healthcheck, id: string): Promise<string | undefined> {
  const {
    command,
    interval_sec: pause,
    timeout_sec: limit,
    start_period_sec: period,
    start_interval_sec: early,
    retries,
  } = check;
  const script = [
    `begin=$SECONDS; failures=0`,
    'while :; do',
    `  timeout -k 1 ${limit} bash -c ${shellLine([command])} </dev/null && exit 0`,
    `  if [ $((SECONDS - begin)) -lt ${Math.ceil(period)} ]; then sleep ${early}; continue; fi`,
    `  failures=$((failures + 1)); [ $failures -lt ${retries} ] || exit 1`,
    `  sleep ${pause}`,
    'done',
  ].join('\n');
  const timeoutMs = (period + retries * (limit + pause) + 30) * 1000;
  const { exitCode, output } = await new Calls(sandbox, id).exec(script, timeoutMs, false, 4000);
  return exitCode === 0 ? undefined : `the health check failed: ${command}: ${output.slice(-SHOWN)}`;
}
