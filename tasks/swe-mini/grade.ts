/**
 * Grades a diff in a fresh sandbox over the pristine repository. The process that runs the candidate's code is given
 * arguments and asked for results; what the results should be never enters the sandbox. So there is nothing to read,
 * and nothing that the code prints, patches or ends can earn a reward but the right answers to calls that it had not
 * seen when the diff was taken. Tests of the repository play no part: editing them gains nothing.
 *
 * What is cut off without results (a signal, memory that ran out) may be the machine's doing or the code's own, and
 * nothing in its sandbox can tell. So a control without any of that code is graded next, in a sandbox of its own: where
 * that is cut off too, the grader has failed. Where it is not, the code has one more try; cut off again beside a control
 * that is not, it is to blame: 0. A machine must strike twice, and spare what runs right after each time, to cost a
 * reward; code that ends its judge never escapes its 0, for it has no part in the control. A sandbox that is lost while
 * it is graded in counts as cut off: nothing can tell who ended it.
 *
 * Diff and code together have a budget of processor time, which no other load on the machine adds to: what needs more is
 * to blame. What does not end in its time by the clock has six times as much once, and then a control with as much, which
 * takes as much processor time: a host that stands still, or is overloaded, is late with that one too.
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
/** Dozens of times what right answers take. */
const CPU_MS = 2_000;
/** Of the second run, and of controls. A control is late as well where the machine gives a sandbox less than a thirtieth of a processor. */
const LONG_TIMEOUT_MS = 60_000;
const OUTPUT_BYTES = 1 << 18;
const TTL_SECONDS = 120;
const PATCH = '/tmp/candidate.diff';
const RESULTS = 'longhaul results';
/** What the control changes: nothing that is asked for. */
const CONTROL = [
  'diff --git a/control b/control',
  'new file mode 100644',
  '--- /dev/null',
  '+++ b/control',
  '@@ -0,0 +1 @@',
  '+control',
  '',
].join('\n');
/** From here on an exit code is a shell's that could not start a program, or was told of a signal. */
const NOT_ITS_OWN = 126;

/** Errors while importing or calling are results as well: the name of their class after a `!`. */
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
 * The first line is printed before any of the candidate's code can run: it says whether we or the diff failed. Git says
 * no by 1, or by 128 where it cannot read the diff; anything else is no word of its own.
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

/** It took all its processor time: its own doing, whatever else runs on the machine. */
const isSpent = ({ signal }: Ending): boolean => signal === 'SIGXCPU';

/** What ended it before it had anything to say; `undefined`: it came to its own end, or to that of its time. */
function cutOffBy(ending: Ending): string | undefined {
  const { exitCode, signal, output, timedOut, outOfMemory } = ending;
  if (timedOut || isSpent(ending) || resultsIn(output)) return undefined;
  if (outOfMemory) return 'out of memory';
  return exitCode === null || exitCode >= NOT_ITS_OWN ? (signal ?? `exit code ${exitCode ?? 'unknown'}`) : undefined;
}

/** The same of a run that has had all the time that it gets. */
function stoppedBy(ending: Ending): string | undefined {
  return ending.timedOut ? 'not in time' : cutOffBy(ending);
}

function zero(reason: string): Verdict {
  return { code: 'graded', reward: 0, passed: false, reason };
}

/** Of what was not cut off or late, or was so twice and is to blame. */
export function judge(ending: Ending, cases: readonly Case[]): Verdict {
  const { output, timedOut } = ending;
  const [first] = output.split('\n', 1);
  const cause = cutOffBy(ending);
  if (cause !== undefined) return zero(`the code was cut off twice (${cause}), and nothing else was`);
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

/** How long a run may take, and of a control how much processor time it takes beside. */
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

/** The candidate's machine with another diff. */
function withDiff(candidate: Candidate, diff: string): Candidate {
  return {
    ...candidate,
    files: candidate.files.map((file) => (file.path === PATCH ? { ...file, content: diff } : file)),
  };
}

/**
 * Where something stopped a run (`cause`): whether it stops the control as well, at the next moment; `undefined`: no, or
 * nothing did. What was late is compared with a control that takes as much processor time.
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
    reason: `the grader was stopped (${cause}), and so was one without the code that it grades (${why})`,
  };
}

/** What did not come to its own end has another run, in a sandbox that nothing has run in; a late one has longer. */
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
