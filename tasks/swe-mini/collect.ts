/**
 * Takes the agent's diff against the commit that it started from, whatever the agent did to git. The diff is data and
 * is never run here: a sandbox that reports a false diff only changes what is graded, as an edit would. The agent must
 * not be able to prevent the collection, since a rollout whose collection fails is not graded.
 *
 * So the whole collection has one budget of processor time, which does not depend on other load on the machine. If it
 * needs more, the agent is at fault: there is no diff. If it is cut off in another way, or late by the clock, the
 * machine may be at fault. Then a control is collected, in a sandbox that the agent never used; after a timeout, it
 * uses as much processor time. If the control is cut off or late too, the machine is at fault, and the collection
 * fails. If not, the diff is taken once more. If it is cut off again and its control is not, the agent is at fault:
 * there is no diff.
 */

import {
  type ExecResult,
  type Sandbox,
  SandboxLost,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import { MOST, type Most, spend, tidy, TOO_MUCH } from './tidy.ts';

/** What a collection may take, and how it writes what it finds. */
export interface CollectionBounds {
  /** A larger diff gets a reward of 0. */
  readonly maxBytes: number;
  /** Many times what the workspace needs. */
  readonly cpuMs: number;
  readonly timeoutMs: number;
  readonly most: Most;
  /** Without: the diff only says that a binary file differs. */
  readonly binary: boolean;
}

const SMALL: CollectionBounds = {
  maxBytes: 1 << 20,
  cpuMs: 4_000,
  /** A control is late too if the machine gives a sandbox less than a twentieth of a processor. */
  timeoutMs: 90_000,
  most: MOST,
  binary: true,
};
const SECONDS_MORE = 150;
const NO_DIFF = 'no diff: ';

/** A text diff may hold any bytes, and output is text: it is written in base64. */
const written = (diff: string, binary: boolean): string =>
  binary ? diff : `{ set -o pipefail; ${diff} | base64 --wrap=0; }`;

/**
 * Uses a separate repository in the emptied /tmp: no configuration, hook, filter, attribute or index of the agent, only
 * its objects, which git reads as data. They can still need much time: one file under many names, and trees that refer
 * to each other many times, give more to read than was written.
 */
function command({ base, prepare = '', bounds: { most, binary } = SMALL }: Collection): string {
  const options =
    `${binary ? '--binary ' : ''}--no-color --no-ext-diff --no-textconv --no-renames --ignore-submodules ` +
    '--src-prefix=a/ --dst-prefix=b/';
  return [
    ...(prepare === '' ? [] : [prepare]),
    tidy(most),
    'export GIT_DIR=$(mktemp -d /tmp/collect-XXXXXXXX) GIT_WORK_TREE=$PWD ' +
      'GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects',
    'export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1',
    'mkdir "$GIT_DIR/refs" "$GIT_DIR/objects" && echo "ref: refs/heads/none" > "$GIT_DIR/HEAD"',
    `git add -A >/dev/null 2>&1 && ${written(`git diff --cached ${options} ${base} 2>/dev/null`, binary)}`,
  ].join('\n');
}

/**
 * The collection was cut off, and so was its control. That says nothing about the agent's work, and a retry may
 * succeed.
 */
export class CollectFailed extends Error {
  override readonly name = 'CollectFailed';
  readonly sandbox: string;
  readonly execution: number;

  constructor(sandbox: string, execution: number, cause: string) {
    super(`The diff of ${sandbox} could not be taken (attempt ${execution}): ${cause}`);
    this.sandbox = sandbox;
    this.execution = execution;
  }
}

/** The sandbox whose diff is taken, and what its control needs. */
export interface Collection {
  readonly sandbox: Sandbox;
  /** The sandbox as it was before the agent's first turn. */
  readonly spec: Omit<SandboxSpec, 'id' | 'ttlSeconds'>;
  /** The commit that the agent started from: its id, or a word of a shell that names it. */
  readonly base: string;
  /** Runs first. It must end by itself. */
  readonly prepare?: string;
  /** Default: for a small repository. */
  readonly bounds?: CollectionBounds;
  readonly provider: SandboxProvider;
  /** Counts executions from 1. For a repeated call id, the sandbox's journal would return the failed result. */
  readonly execution: number;
}

const isSpent = ({ signal }: ExecResult): boolean => signal === 'SIGXCPU';

/** What cut the run off, other than git itself or the content. A shell reports a signal as 128 plus its number. */
function interruption(result: ExecResult, { timeoutMs }: CollectionBounds): string | undefined {
  const { exitCode, signal, timedOut, outOfMemory } = result;
  if (isSpent(result)) return undefined;
  if (timedOut) return `it took more than ${timeoutMs / 1000} s`;
  if (outOfMemory) return 'out of memory';
  if (exitCode === 126 || exitCode === 127) return 'a program could not start';
  if (exitCode === null || exitCode > 128)
    return `ended by ${signal ?? (exitCode === null ? 'a signal' : `signal ${exitCode - 128}`)}`;
  return undefined;
}

const noDiff = (reason: string): Uint8Array => Buffer.from(`${NO_DIFF}${reason}\n`);

/** The reason why there is no diff, if that was collected. No diff starts with this prefix. */
export function whyNoDiff(collected: Uint8Array): string | undefined {
  const text = Buffer.from(collected).toString();
  return text.startsWith(NO_DIFF) ? text.slice(NO_DIFF.length).trim() : undefined;
}

function taken(result: ExecResult, { cpuMs, most, maxBytes, binary }: CollectionBounds): Uint8Array {
  if (isSpent(result)) return noDiff(`reading the workspace takes more than ${cpuMs / 1000} s of processor time`);
  if (result.exitCode === TOO_MUCH)
    return noDiff(
      `more than ${most.files} files, folders nested more than ${most.depth} deep, or a path of more than ` +
        `${most.pathBytes} bytes`,
    );
  if (result.droppedBytes > 0) return noDiff(`it is larger than ${maxBytes} bytes`);
  return result.exitCode === 0
    ? Buffer.from(result.output, binary ? 'utf8' : 'base64')
    : noDiff('git cannot read the workspace');
}

function run(
  sandbox: Sandbox,
  callId: string,
  text: string,
  { timeoutMs, maxBytes, binary }: CollectionBounds,
  cpuMs?: number,
): Promise<ExecResult> {
  return sandbox.exec({
    callId,
    command: text,
    timeoutMs,
    outputLimit: binary ? maxBytes : 4 * Math.ceil(maxBytes / 3),
    alone: true,
    ...(cpuMs && { cpuMs }),
  });
}

/**
 * Collects a control without the agent's files, which also uses `cpuMs`. Returns what cut it off; `undefined`: nothing.
 */
async function controlled(work: Collection, id: string, cpuMs: number): Promise<string | undefined> {
  const { spec, provider, bounds = SMALL } = work;
  const ttlSeconds = bounds.timeoutMs / 1000 + SECONDS_MORE;
  try {
    const control = await provider.create({ ...spec, id, ttlSeconds });
    try {
      const result = await run(control, `${id}/collect`, `${spend(cpuMs)}\n${command(work)}`, bounds);
      return interruption(result, bounds) ?? (result.exitCode === 0 ? undefined : `it ended with ${result.exitCode}`);
    } finally {
      control.close();
    }
  } catch (error) {
    if (error instanceof SandboxLost || error instanceof SandboxUnavailable) return error.message;
    throw error;
  } finally {
    await provider.destroy(id);
  }
}

/**
 * Returns the diff, empty if nothing changed. If the agent prevents a diff, it returns the reason (see `whyNoDiff`).
 * Errors: `CollectFailed`, and those of the sandbox.
 */
export async function collectDiff(work: Collection): Promise<Uint8Array> {
  const { sandbox, execution, bounds = SMALL } = work;
  let cause = '';
  for (const round of ['', '-again']) {
    const callId = `${sandbox.id}/collect-${execution}${round}`;
    const result = await run(sandbox, callId, command(work), bounds, bounds.cpuMs);
    const cut = interruption(result, bounds);
    if (cut === undefined) return taken(result, bounds);
    cause = cut;
    const fault = await controlled(
      work,
      `${callId}-control`,
      result.timedOut ? Math.min(result.cpuMs ?? 0, bounds.cpuMs) : 0,
    );
    if (fault !== undefined)
      throw new CollectFailed(sandbox.id, execution, `${cause}; the control was cut off too (${fault})`);
  }
  return noDiff(`git was cut off twice (${cause}), and the control never was`);
}
