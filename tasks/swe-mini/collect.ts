/**
 * Takes the agent's diff against the commit that it began from, whatever it did to git in between. What it takes is
 * data, never run here: a sandbox that lies about its diff only changes what is graded, as an edit would.
 */

import type { ExecResult, Sandbox } from '../../sandboxes/sandbox.ts';

/** A diff beyond this does not apply, and earns nothing. */
const MAX_BYTES = 1 << 20;
const TIMEOUT_MS = 30_000;

/** An index of its own, so that a lock, flags or a broken index of the agent's do not matter; no configuration but the repository's. */
function command(base: string): string {
  const git = 'git --git-dir=.git --work-tree=. -c safe.directory=* -c core.bare=false -c core.fsmonitor=false -c core.autocrlf=false';
  const options = '--binary --no-color --no-ext-diff --no-textconv --no-renames --src-prefix=a/ --dst-prefix=b/';
  return [
    'export GIT_INDEX_FILE=/tmp/.longhaul-collect GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1',
    'rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"',
    `${git} add -A >/dev/null 2>&1 && ${git} diff --cached ${options} ${base} 2>/dev/null`,
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

/** What ended git other than git itself; a shell tells of a signal by 128 and its number. */
function interruption({ exitCode, signal, timedOut, outOfMemory }: ExecResult): string | undefined {
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
    fresh: true,
  });
  const cause = interruption(result);
  if (cause !== undefined) throw new CollectFailed(sandbox.id, execution, cause);
  return result.exitCode === 0 ? Buffer.from(result.output) : new Uint8Array();
}
