/**
 * Takes the agent's diff against the commit that it began from, whatever it did to git in between. What it takes is
 * data, never run here: a sandbox that lies about its diff only changes what is graded, as an edit would. Nothing that
 * the agent left behind decides whether a diff can be taken, for a rollout without one is not graded.
 */

import type { ExecResult, Sandbox } from '../../sandboxes/sandbox.ts';

/** A diff beyond this earns nothing. */
const MAX_BYTES = 1 << 20;
/** As does a workspace of more files: what git has to look at stays small. */
const MAX_FILES = 20_000;
const TIMEOUT_MS = 30_000;
/** Processor time of one process, many times what all that fits on the disk takes; no other load on the machine adds to it. */
const CPU_SECONDS = 4;
/** As a shell tells of SIGXCPU, which ends who takes more. */
const TOOK_TOO_MUCH = 128 + 24;
/** With everything else ended, what kills git this often is the agent's own: memory or files that it left. */
const BLAMED_AFTER = 3;

/**
 * A repository of our own in an emptied /tmp: no configuration, hook, filter, attribute or index of the agent's, only
 * its objects, which git reads as data. Pipes and sockets would hold up whoever opens them, and so would links to them
 * or to terminals; folders that are shut would keep them. A repository within the workspace git takes for one word, or
 * for a reason to take nothing: its files are files. One file under many names, and trees that name each other again and
 * again, are more to read than was ever written.
 */
function command(base: string): string {
  const options = '--binary --no-color --no-ext-diff --no-textconv --no-renames --ignore-submodules --src-prefix=a/ --dst-prefix=b/';
  return [
    `ulimit -S -t ${CPU_SECONDS}`,
    'chmod -R u+rwX . /tmp /dev/shm 2>/dev/null',
    'find /tmp /dev/shm -mindepth 1 -delete 2>/dev/null',
    `[ "$(find . | head -n ${MAX_FILES + 1} | wc -l)" -le ${MAX_FILES} ] || exit 3`,
    'find . -mindepth 2 -name .git -prune -exec rm -rf "{}" + 2>/dev/null',
    'find . "(" -xtype p -o -xtype s -o -xtype c ")" -delete 2>/dev/null',
    'export GIT_DIR=$(mktemp -d /tmp/collect-XXXXXXXX) GIT_WORK_TREE=$PWD GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects',
    'export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1',
    'mkdir "$GIT_DIR/refs" "$GIT_DIR/objects" && echo "ref: refs/heads/none" > "$GIT_DIR/HEAD"',
    `git add -A >/dev/null 2>&1 && git diff --cached ${options} ${base} 2>/dev/null`,
  ].join('\n');
}

/** Git was cut off before it could say what changed: no word on the agent's work, and worth another try. */
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

/** What ended git other than git itself or what it was given to read; a shell tells of a signal by 128 and its number. */
function interruption({ exitCode, signal, timedOut, outOfMemory }: ExecResult): string | undefined {
  if (exitCode === TOOK_TOO_MUCH) return undefined;
  if (timedOut) return `it took more than ${TIMEOUT_MS / 1000} s`;
  if (outOfMemory) return 'out of memory';
  if (exitCode === null || exitCode > 128) return `ended by ${signal ?? (exitCode === null ? 'a signal' : `signal ${exitCode - 128}`)}`;
  return undefined;
}

/**
 * Empty when nothing changed, or when the agent left no repository to read. `execution` counts the tries from 1: the
 * sandbox's journal would answer a repeated name with the try that failed.
 * Errors: `CollectFailed`, and those of the sandbox.
 */
export async function collectDiff(sandbox: Sandbox, base: string, execution: number): Promise<Uint8Array> {
  const result = await sandbox.exec({
    callId: `${sandbox.id}/collect-${execution}`,
    command: command(base),
    timeoutMs: TIMEOUT_MS,
    outputLimit: MAX_BYTES,
    alone: true,
  });
  const cause = interruption(result);
  if (cause !== undefined && (result.timedOut || execution < BLAMED_AFTER)) throw new CollectFailed(sandbox.id, execution, cause);
  if (result.droppedBytes > 0) return Buffer.from(`more than the ${MAX_BYTES} bytes that a diff may have\n`);
  return result.exitCode === 0 ? Buffer.from(result.output) : new Uint8Array();
}
