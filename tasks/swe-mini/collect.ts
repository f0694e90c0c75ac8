/**
 * Takes the agent's diff against the commit that it began from, whatever it did to git in between. What it takes is
 * data, never run here: a sandbox that lies about its diff only changes what is graded, as an edit would. Nothing that
 * the agent left behind decides whether a diff can be taken, for a rollout without one is not graded.
 *
 * So all of it has one budget of processor time, which no other load on the machine adds to: what needs more is the
 * agent's doing, and is no diff. What is cut off otherwise, or late by the clock, may be the machine's doing: then a
 * control is collected, in a sandbox that the agent never was in, and takes as much processor time. Where that is cut
 * off or late as well, the machine is at fault, and the collection fails. Where it is not, the diff is taken once more;
 * cut off again beside a control that is not, the agent is to blame: no diff.
 */

import {
  type ExecResult,
  type Sandbox,
  SandboxLost,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import { MOST, spend, TIDY, TOO_MUCH } from './tidy.ts';

/** A diff beyond this earns nothing. */
const MAX_BYTES = 1 << 20;
/** Many times what all that fits on the disk takes. */
const CPU_MS = 4_000;
/** A control is late as well where the machine gives a sandbox less than a twentieth of a processor. */
const TIMEOUT_MS = 90_000;
const TTL_SECONDS = 240;
const NO_DIFF = 'no diff: ';

/**
 * A repository of our own in an emptied /tmp: no configuration, hook, filter, attribute or index of the agent's, only
 * its objects, which git reads as data. One file under many names, and trees that name each other again and again, are
 * more to read than was ever written.
 */
function command(base: string): string {
  const options =
    '--binary --no-color --no-ext-diff --no-textconv --no-renames --ignore-submodules --src-prefix=a/ --dst-prefix=b/';
  return [
    TIDY,
    'export GIT_DIR=$(mktemp -d /tmp/collect-XXXXXXXX) GIT_WORK_TREE=$PWD GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects',
    'export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1',
    'mkdir "$GIT_DIR/refs" "$GIT_DIR/objects" && echo "ref: refs/heads/none" > "$GIT_DIR/HEAD"',
    `git add -A >/dev/null 2>&1 && git diff --cached ${options} ${base} 2>/dev/null`,
  ].join('\n');
}

/** Git was cut off before it could say what changed, and so was a control: no word on the agent's work, and worth another try. */
export class CollectFailed extends Error {
  override readonly name = 'CollectFailed';
  readonly sandbox: string;
  readonly execution: number;

  constructor(sandbox: string, execution: number, cause: string) {
    super(`The diff of ${sandbox} could not be taken (try ${execution}): ${cause}`);
    this.sandbox = sandbox;
    this.execution = execution;
  }
}

/** What a diff is taken of, and where the control is made. */
export interface Collection {
  readonly sandbox: Sandbox;
  /** As the sandbox was before the agent's first turn. */
  readonly spec: Omit<SandboxSpec, 'id' | 'ttlSeconds'>;
  /** The commit that the agent began from. */
  readonly base: string;
  readonly provider: SandboxProvider;
  /** Counts the tries from 1: the sandbox's journal would answer a repeated name with the try that failed. */
  readonly execution: number;
}

const isSpent = ({ signal }: ExecResult): boolean => signal === 'SIGXCPU';

/** What ended it other than git itself, or what it was given to read; a shell reports a signal as 128 and its number. */
function interruption(result: ExecResult): string | undefined {
  const { exitCode, signal, timedOut, outOfMemory } = result;
  if (isSpent(result)) return undefined;
  if (timedOut) return `it took more than ${TIMEOUT_MS / 1000} s`;
  if (outOfMemory) return 'out of memory';
  if (exitCode === 126 || exitCode === 127) return 'a program could not start';
  if (exitCode === null || exitCode > 128)
    return `ended by ${signal ?? (exitCode === null ? 'a signal' : `signal ${exitCode - 128}`)}`;
  return undefined;
}

const noDiff = (reason: string): Uint8Array => Buffer.from(`${NO_DIFF}${reason}\n`);

/** Why there is none, where that is what was collected: no diff begins so. */
export function whyNoDiff(collected: Uint8Array): string | undefined {
  const text = Buffer.from(collected).toString();
  return text.startsWith(NO_DIFF) ? text.slice(NO_DIFF.length).trim() : undefined;
}

function taken(result: ExecResult): Uint8Array {
  if (isSpent(result)) return noDiff(`what was left takes more than ${CPU_MS / 1000} s of processor time to read`);
  if (result.exitCode === TOO_MUCH)
    return noDiff(
      `more than ${MOST.files} files, folders nested more than ${MOST.depth} deep, or a path of more than ${MOST.pathBytes} bytes`,
    );
  if (result.droppedBytes > 0) return noDiff(`it has more than ${MAX_BYTES} bytes`);
  return result.exitCode === 0 ? Buffer.from(result.output) : noDiff('git cannot read what was left');
}

function run(sandbox: Sandbox, callId: string, text: string, cpuMs?: number): Promise<ExecResult> {
  return sandbox.exec({
    callId,
    command: text,
    timeoutMs: TIMEOUT_MS,
    outputLimit: MAX_BYTES,
    alone: true,
    ...(cpuMs && { cpuMs }),
  });
}

/** What cut off a collection without anything of the agent's, which took `cpuMs` beside; `undefined`: nothing did. */
async function controlled(
  { spec, base, provider }: Collection,
  id: string,
  cpuMs: number,
): Promise<string | undefined> {
  try {
    const control = await provider.create({ ...spec, id, ttlSeconds: TTL_SECONDS });
    try {
      const result = await run(control, `${id}/collect`, `${spend(cpuMs)}\n${command(base)}`);
      return interruption(result) ?? (result.exitCode === 0 ? undefined : `it ended with ${result.exitCode}`);
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
 * Empty when nothing changed; where no diff can be had because of the agent, the reason (`whyNoDiff`).
 * Errors: `CollectFailed`, and those of the sandbox.
 */
export async function collectDiff(work: Collection): Promise<Uint8Array> {
  const { sandbox, base, execution } = work;
  let cause = '';
  for (const round of ['', '-again']) {
    const callId = `${sandbox.id}/collect-${execution}${round}`;
    const result = await run(sandbox, callId, command(base), CPU_MS);
    const cut = interruption(result);
    if (cut === undefined) return taken(result);
    cause = cut;
    const fault = await controlled(
      work,
      `${callId}-control`,
      result.timedOut ? Math.min(result.cpuMs ?? 0, CPU_MS) : 0,
    );
    if (fault !== undefined)
      throw new CollectFailed(sandbox.id, execution, `${cause}, and so was a control (${fault})`);
  }
  return noDiff(`git was cut off twice (${cause}), and nothing else was`);
}
