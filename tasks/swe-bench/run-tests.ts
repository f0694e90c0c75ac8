/**
 * Runs an instance's tests in a fresh sandbox: the agent's patch is applied, then what adds the hidden tests, then the
 * tests run. The tests are a call of their own, which nothing else writes to, and its exit code is the supervisor's: a
 * patch can print what it likes, and no mark in a log decides where the tests began or how they ended.
 */

import { quoteForShell } from '../../agents/tools/search.ts';
import { type ExecResult, type Sandbox, SandboxLost, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import type { Asset } from './assets.ts';
import type { Candidate } from './patch.ts';
import { START } from './prepare.ts';

const FOLDER = '/tmp/longhaul-grade';
const APPLY_MS = 300_000;
const APPLY_CPU_MS = 60_000;
const OUTPUT_BYTES = 4 << 20;
const SHORT = 4096;
/** Exit codes of the script that applies: no other program in it ends with them. */
const NOT_APPLIED = 91;
const NO_TESTS = 92;

/** Git without the settings of anybody. */
const GIT = 'export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1';

export interface TestPlan {
  readonly workdir: string;
  readonly testPatch: string;
  /** Files of the hidden tests: they are as they were at the start before `testPatch` is applied. */
  readonly testPaths: readonly string[];
  /** They are there when the tests run, whatever the patch and `script.prepare` did. */
  readonly assets: readonly Asset[];
  /** True: `script.prepare` applies `testPatch` itself. */
  readonly appliesItself: boolean;
  /** `prepare` may install; its output does not count. */
  readonly script: { readonly prepare: string; readonly test: string };
}

/** How a run ended. */
export type Run =
  | { readonly kind: 'ran'; readonly output: string; readonly exitCode: number | null; readonly droppedBytes: number }
  | { readonly kind: 'not-applied'; readonly reason: string }
  /** The hidden tests could not be put in place. */
  | { readonly kind: 'no-tests'; readonly reason: string }
  /** It did not end by itself: the machine or the patch may be at fault. */
  | { readonly kind: 'cut-off'; readonly cause: string; readonly late: boolean };

const path = (name: string): string => quoteForShell(name);

/**
 * Upstream's chain: `git apply`, with a three-way merge, with rejects, and `patch` with some fuzz; the tree is reset in
 * between. A patch that is found to be there already counts as applied. Files that the patch makes, and that exist
 * though git does not track them, are left over from the image: the agent's are those of the patch.
 */
function applyScript({ made }: Candidate): string {
  const patch = `${FOLDER}/candidate.diff`;
  const tries = ['git apply --verbose', 'git apply --verbose --3way', 'git apply --verbose --reject'].map(
    (command) => `${command} ${patch}`,
  );
  return [
    ...made.map((name) => `git ls-files --error-unmatch -- ${path(name)} >/dev/null 2>&1 || rm -rf -- ${path(name)}`),
    'reset() { git reset -q --hard && git clean -qfd; }',
    'apply() {',
    ...[...tries, `patch --batch --forward --fuzz=5 -p1 -i ${patch}`].map(
      (command) => `  ${command} && return 0\n  reset`,
    ),
    `  git apply --check --reverse ${patch}`,
    '}',
    `apply || exit ${NOT_APPLIED}`,
    'git reset -q',
  ].join('\n');
}

function testsScript({ testPaths, testPatch, appliesItself }: TestPlan): string {
  const restored = testPaths.map(
    (name) =>
      `if git cat-file -e "$start:"${path(name)} 2>/dev/null; then git checkout -q "$start" -- ${path(name)}; ` +
      `else rm -rf -- ${path(name)}; fi || exit ${NO_TESTS}`,
  );
  const applies = testPatch !== '' && !appliesItself;
  return [
    `start=$(cat .git/${START})`,
    ...restored,
    ...(applies ? [`git apply --whitespace=nowarn ${FOLDER}/tests.diff || exit ${NO_TESTS}`] : []),
    'git reset -q',
  ].join('\n');
}

/** A shell reads the whole of a group before it runs its first command, so nothing can change the rest. */
function evalScript({ workdir, assets, script: { prepare, test } }: TestPlan): string {
  return [
    '{',
    `cd ${path(workdir)}`,
    ...(prepare.trim() === '' ? [] : ['exec 3>&1 4>&2 >/dev/null 2>&1', prepare, 'exec >&3 2>&4 3>&- 4>&-']),
    `cd ${path(workdir)}`,
    ...(assets.length === 0 ? [] : [`cp -R ${FOLDER}/assets/. . || exit 1`]),
    test,
    'exit $?',
    '}',
    '',
  ].join('\n');
}

function cutOff({ timedOut, outOfMemory, exitCode, signal }: ExecResult, timeoutMs: number): Run | undefined {
  if (timedOut) return { kind: 'cut-off', cause: `not ended after ${Math.round(timeoutMs / 1000)} s`, late: true };
  if (exitCode === null) return { kind: 'cut-off', cause: `ended by ${signal ?? 'a signal'}`, late: false };
  if (exitCode === 137)
    return { kind: 'cut-off', cause: outOfMemory ? 'out of memory' : 'ended by SIGKILL', late: false };
  return undefined;
}

/** To apply a patch has a budget of processor time: if it is late by the clock, the patch is not to blame. */
const notLate = (run: Run | undefined): Run | undefined => (run?.kind === 'cut-off' ? { ...run, late: false } : run);

/** The last line of what a program printed, for a reason. */
const lastLine = (output: string): string => (output.trim().split('\n').at(-1) ?? '').slice(0, 200);

/** `content`: bytes, or a text of which each character is one. */
async function put(
  sandbox: Sandbox,
  id: string,
  name: string,
  content: string | Uint8Array,
  call = name,
): Promise<void> {
  const file = `${FOLDER}/${name}`;
  const { error } = await sandbox.write({
    callId: `${id}/${call}`,
    path: file,
    content: typeof content === 'string' ? Buffer.from(content, 'latin1') : content,
    note: name,
  });
  if (error !== undefined) throw new SandboxUnavailable(`${file} could not be written: ${error}`);
}

/** `candidate`: absent for a control, without the agent's changes. `id`: prefix of its calls. */
export async function runTests(
  sandbox: Sandbox,
  id: string,
  plan: TestPlan,
  candidate: Candidate | undefined,
  timeoutMs: number,
): Promise<Run> {
  const head = ['set -u', GIT, `cd ${path(plan.workdir)}`];
  const isPatched = candidate !== undefined && candidate.patch !== '';
  const apply = [...head, ...(isPatched ? [applyScript(candidate)] : []), testsScript(plan), ''].join('\n');
  try {
    if (isPatched) await put(sandbox, id, 'candidate.diff', candidate.patch);
    await put(sandbox, id, 'tests.diff', Buffer.from(plan.testPatch).toString('latin1'));
    await put(sandbox, id, 'apply.sh', apply);
    for (const [i, asset] of plan.assets.entries())
      await put(sandbox, id, `assets/${asset.path}`, asset.content, `asset-${i}`);
    await put(sandbox, id, 'eval.sh', Buffer.from(evalScript(plan)).toString('latin1'));
    const applied = await sandbox.exec({
      callId: `${id}/apply`,
      command: `bash ${FOLDER}/apply.sh 2>&1`,
      timeoutMs: APPLY_MS,
      outputLimit: SHORT,
      fresh: true,
      ...(isPatched && { cpuMs: APPLY_CPU_MS }),
    });
    if (applied.signal === 'SIGXCPU')
      return { kind: 'not-applied', reason: `to apply it takes more than ${APPLY_CPU_MS / 1000} s of processor time` };
    if (applied.exitCode === NOT_APPLIED) return { kind: 'not-applied', reason: lastLine(applied.output) };
    if (applied.exitCode !== 0)
      return notLate(cutOff(applied, APPLY_MS)) ?? { kind: 'no-tests', reason: lastLine(applied.output) };
    const ran = await sandbox.exec({
      callId: `${id}/tests`,
      command: `exec bash ${FOLDER}/eval.sh`,
      timeoutMs,
      outputLimit: OUTPUT_BYTES,
      fresh: true,
    });
    const { output, exitCode, droppedBytes } = ran;
    return cutOff(ran, timeoutMs) ?? { kind: 'ran', output, exitCode, droppedBytes };
  } catch (error) {
    if (error instanceof SandboxLost || error instanceof SandboxUnavailable)
      return { kind: 'cut-off', cause: `its sandbox was lost (${error.message})`, late: false };
    throw error;
  }
}
