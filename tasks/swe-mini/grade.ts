/**
 * Grades a diff in a new sandbox with the original repository. The process that runs the candidate's code receives
 * arguments and returns results; the expected results never enter the sandbox. So the code cannot read them, and
 * whatever it prints, patches or ends, it gets a reward only for right answers to calls that it could not know when the
 * diff was taken. The repository's own tests are not used, so editing them does not help.
 *
 * If a run is cut off without results (by a signal, or because memory ran out), the machine or the code may be at
 * fault, and nothing in the sandbox can show which. So a control without the candidate's code runs next, in its own
 * sandbox. If it is cut off too, the grader has failed. If not, the code runs once more. If it is cut off again and its
 * control is not, the code is at fault: reward 0. So a machine costs a reward only if it fails twice and spares the
 * control both times. Code that ends its grader always gets 0, since it cannot affect the control. A sandbox that is
 * lost during grading counts as cut off: nothing can show what ended it.
 *
 * Applying the diff and running the code have a budget of processor time, which does not depend on other load on the
 * machine. If they need more, the code is at fault. A run that exceeds its time by the clock is repeated once with six
 * times as much. If it is late again, a control runs with the same limit and as much processor time: on a host that
 * is frozen or overloaded, the control is late too.
 */

import {
  type ExecResult,
  type Sandbox,
  type SandboxProvider,
  type SandboxSpec,
  SandboxLost,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { whyNoDiff } from './collect.ts';
import { type Case, type Problem, LIMITS, WORKDIR } from './problem.ts';
import { pythonRepr, workingTree } from './repository.ts';
import { spend } from './tidy.ts';

const TIMEOUT_MS = 10_000;
/** Dozens of times what a right solution needs. */
const CPU_MS = 2_000;
/**
 * For the second run and for controls. A control is late too if the machine gives a sandbox less than a thirtieth of a
 * processor.
 */
const LONG_TIMEOUT_MS = 60_000;
const OUTPUT_BYTES = 1 << 18;
const TTL_SECONDS = 120;
const PATCH = '/tmp/candidate.diff';
const RESULTS = 'longhaul results';
/** The control's diff. It changes nothing that is graded. */
const CONTROL = [
  'diff --git a/control b/control',
  'new file mode 100644',
  '--- /dev/null',
  '+++ b/control',
  '@@ -0,0 +1 @@',
  '+control',
  '',
].join('\n');
/** Exit codes from this one on are the shell's: it could not start a program, or a signal ended the program. */
const NOT_ITS_OWN = 126;

/** The Python program that calls the cases. An error of an import or a call is a result too: `!` and its class name. */
export function driver(cases: ReadonlyArray<Omit<Case, 'expected'>>): string {
  const modules = [...new Set(cases.map((item) => item.module))];
  return [
    'import sys, importlib',
    `sys.path.append(${JSON.stringify(WORKDIR)})`,
    'out = []',
    'def ask(module, name, *values):',
    '    try: out.append(repr(getattr(modules[module], name)(*values)))',
    '    except BaseException as error: out.append("!" + type(error).__name__)',
    'modules = {}',
    `for module in ${JSON.stringify(modules)}:`,
    '    try: modules[module] = importlib.import_module(module)',
    '    except BaseException: pass',
    ...cases.map(
      (item) => `ask(${[`'${item.module}'`, `'${item.function}'`, ...item.arguments.map(pythonRepr)].join(', ')})`,
    ),
    `sys.stdout.write("\\n${RESULTS}\\n" + "\\n".join(out) + "\\n")`,
    '',
  ].join('\n');
}

/**
 * The first line is printed before any of the candidate's code can run: it shows whether the grader or the diff failed.
 * Git rejects a diff with 1, or with 128 if it cannot read it. Any other exit code is not git's own.
 */
const COMMAND = [
  'command -v git >/dev/null && command -v python3 >/dev/null || { echo missing; exit 0; }',
  `git apply --whitespace=nowarn ${PATCH} >/dev/null 2>&1`,
  'case $? in 0) echo applied ;; 1 | 128) echo rejected; exit 0 ;; *) exit 137 ;; esac',
  'exec python3 -I -S -B /tmp/driver.py',
].join('\n');

function resultsIn(output: string): string[] | undefined {
  const at = output.lastIndexOf(`\n${RESULTS}\n`);
  return at < 0 ? undefined : output.slice(at + RESULTS.length + 2).split('\n');
}

type Ending = Omit<ExecResult, 'droppedBytes' | 'durationMs'>;

/** True if the run used up its processor time. That does not depend on other load on the machine. */
const isSpent = ({ signal }: Ending): boolean => signal === 'SIGXCPU';

/**
 * What cut the run off before its results; `undefined` if it ended by itself, timed out or used up its processor time.
 */
function cutOffBy(ending: Ending): string | undefined {
  const { exitCode, signal, output, timedOut, outOfMemory } = ending;
  if (timedOut || isSpent(ending) || resultsIn(output)) return undefined;
  if (outOfMemory) return 'out of memory';
  return exitCode === null || exitCode >= NOT_ITS_OWN ? (signal ?? `exit code ${exitCode ?? 'unknown'}`) : undefined;
}

/** As `cutOffBy`, but a timeout counts too: for a run that does not get more time. */
function stoppedBy(ending: Ending): string | undefined {
  return ending.timedOut ? 'not in time' : cutOffBy(ending);
}

function zero(reason: string): Verdict {
  return { code: 'graded', reward: 0, passed: false, reason };
}

/** The verdict on a run that was not cut off or late, or that was so twice and is at fault. */
export function judge(ending: Ending, cases: readonly Case[]): Verdict {
  const { output, timedOut } = ending;
  const [first] = output.split('\n', 1);
  const cause = cutOffBy(ending);
  if (cause !== undefined) return zero(`the code was cut off twice (${cause}), and the control never was`);
  if (first === 'rejected') return zero('the diff does not apply');
  const what = first === 'applied' ? 'the code' : 'git, applying the diff,';
  const results = resultsIn(output) ?? [];
  if (results.length === 0 && isSpent(ending))
    return zero(`${what} took more than ${CPU_MS / 1000} s of processor time`);
  if (timedOut) return zero(`${what} did not end in time`);
  if (first !== 'applied')
    return { code: 'grader-failed', reason: `the grader could not start: ${output.slice(0, 200)}` };
  const right = cases.filter(({ expected }, i) => results[i] === pythonRepr(expected)).length;
  const passed = right === cases.length;
  return { code: 'graded', reward: passed ? 1 : 0, passed, reason: `${right} of ${cases.length} hidden cases` };
}

/** Time limit of a run in milliseconds; `spentMs`: processor time that a control uses in addition. */
interface Time {
  readonly timeoutMs: number;
  readonly spentMs?: number;
}

const LOST: ExecResult = {
  exitCode: null,
  signal: 'the loss of its sandbox',
  output: '',
  droppedBytes: 0,
  timedOut: false,
  outOfMemory: false,
  durationMs: 0,
};

async function run(sandbox: Sandbox, { timeoutMs, spentMs }: Time): Promise<ExecResult> {
  const call = { callId: `${sandbox.id}/grade`, timeoutMs, outputLimit: OUTPUT_BYTES, fresh: true };
  const [command, budget] =
    spentMs === undefined ? [COMMAND, { cpuMs: CPU_MS }] : [`${spend(spentMs)}\n${COMMAND}`, {}];
  try {
    return await sandbox.exec({ ...call, command, ...budget });
  } catch (error) {
    if (error instanceof SandboxLost || error instanceof SandboxUnavailable) return LOST;
    throw error;
  }
}

type Candidate = Omit<SandboxSpec, 'id'>;

async function runAfresh(candidate: Candidate, provider: SandboxProvider, id: string, time: Time): Promise<ExecResult> {
  try {
    const sandbox = await provider.create({ ...candidate, id });
    try {
      return await run(sandbox, time);
    } finally {
      sandbox.close();
    }
  } finally {
    await provider.destroy(id);
  }
}

/** The candidate's sandbox spec with another diff. */
function withDiff(candidate: Candidate, diff: string): Candidate {
  return {
    ...candidate,
    files: candidate.files.map((file) => (file.path === PATCH ? { ...file, content: diff } : file)),
  };
}

/**
 * If a run was stopped (`cause`), runs a control right after it. Returns a verdict if the control is stopped too, else
 * `undefined`. After a timeout, the control uses as much processor time as the run did.
 */
async function faultOfHost(
  cause: string | undefined,
  { timedOut, cpuMs = 0 }: ExecResult,
  candidate: Candidate,
  provider: SandboxProvider,
  id: string,
): Promise<Verdict | undefined> {
  if (cause === undefined) return undefined;
  const spentMs = timedOut ? Math.min(cpuMs, CPU_MS) : 0;
  const control = await runAfresh(withDiff(candidate, CONTROL), provider, `${id}-control`, {
    timeoutMs: LONG_TIMEOUT_MS,
    spentMs,
  });
  const why =
    stoppedBy(control) ??
    (control.output.startsWith('applied\n') ? undefined : `it did not start: ${control.output.slice(0, 200)}`);
  if (why === undefined) return undefined;
  return {
    code: 'grader-failed',
    reason: `the grader was stopped (${cause}), and so was its control without the candidate's code (${why})`,
  };
}

/** A run that does not end by itself is repeated in a new sandbox, with a longer time limit. */
async function verdictOn(
  candidate: Candidate,
  cases: readonly Case[],
  provider: SandboxProvider,
  id: string,
): Promise<Verdict> {
  const first = await runAfresh(candidate, provider, id, { timeoutMs: TIMEOUT_MS });
  const fault = await faultOfHost(cutOffBy(first), first, candidate, provider, id);
  if (fault !== undefined || !(first.timedOut || cutOffBy(first))) return fault ?? judge(first, cases);
  const second = await runAfresh(candidate, provider, `${id}-again`, { timeoutMs: LONG_TIMEOUT_MS });
  return (await faultOfHost(stoppedBy(second), second, candidate, provider, `${id}-again`)) ?? judge(second, cases);
}

export async function gradeDiff(
  problem: Problem,
  diff: Uint8Array,
  provider: SandboxProvider,
  id: string,
): Promise<Verdict> {
  if (diff.length === 0) return zero('nothing was changed');
  const none = whyNoDiff(diff);
  if (none !== undefined) return zero(`no diff could be taken: ${none}`);
  const files = [...workingTree(problem)].map(([path, content]) => ({ path, content: content as string | Uint8Array }));
  files.push({ path: PATCH, content: diff }, { path: '/tmp/driver.py', content: driver(problem.hidden) });
  try {
    const candidate = { workdir: WORKDIR, files, env: {}, limits: LIMITS, ttlSeconds: TTL_SECONDS };
    return await verdictOn(candidate, problem.hidden, provider, id);
  } catch (error) {
    if (!(error instanceof SandboxLost || error instanceof SandboxUnavailable)) throw error;
    return { code: 'grader-failed', reason: error.message };
  }
}
