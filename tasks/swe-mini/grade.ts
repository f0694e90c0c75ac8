/**
 * Grades a diff in a fresh sandbox over the pristine repository. The process that runs the candidate's code is given
 * arguments and asked for results; what the results should be never enters the sandbox. So there is nothing to read,
 * and nothing that the code prints, patches or ends can earn a reward but the right answers to calls that it had not
 * seen when the diff was taken. Tests of the repository play no part: editing them gains nothing.
 */

import type { ExecResult, Sandbox, SandboxProvider, SandboxSpec } from '../../sandboxes/sandbox.ts';
import { SandboxLost, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import type { Verdict } from '../task.ts';
import type { Case, Problem } from './problem.ts';
import { pythonRepr } from './python.ts';
import { workingTree } from './repository.ts';
import { LIMITS, WORKDIR } from './world.ts';

const TIMEOUT_MS = 10_000;
const OUTPUT_BYTES = 1 << 18;
const TTL_SECONDS = 60;
const PATCH = '/tmp/candidate.diff';
const RESULTS = 'longhaul results';

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
    ...cases.map((item) => `ask(${[`'${item.module}'`, `'${item.function}'`, ...item.arguments.map(pythonRepr)].join(', ')})`),
    `sys.stdout.write("\\n${RESULTS}\\n" + "\\n".join(out) + "\\n")`,
    '',
  ].join('\n');
}

/** The first line is printed before any of the candidate's code can run: it says whether we or the diff failed. */
const COMMAND = [
  'command -v git >/dev/null && command -v python3 >/dev/null || { echo missing; exit 0; }',
  `git apply --whitespace=nowarn ${PATCH} >/dev/null 2>&1 || { echo rejected; exit 0; }`,
  'echo applied',
  'exec python3 -I -S -B /tmp/driver.py',
].join('\n');

/** How many of the cases came back as expected. */
function countRight(output: string, cases: readonly Case[]): number {
  const at = output.lastIndexOf(`\n${RESULTS}\n`);
  if (at < 0) return 0;
  const results = output.slice(at + RESULTS.length + 2).split('\n');
  return cases.filter(({ expected }, i) => results[i] === pythonRepr(expected)).length;
}

export function judge({ output, timedOut }: Pick<ExecResult, 'output' | 'timedOut'>, cases: readonly Case[]): Verdict {
  const failed = (reason: string): Verdict => ({ code: 'graded', reward: 0, passed: false, reason });
  const [first] = output.split('\n', 1);
  if (first === 'rejected') return failed('the diff does not apply');
  if (first !== 'applied') return { code: 'grader-failed', reason: `the grader could not start: ${output.slice(0, 200)}` };
  if (timedOut) return failed('the code did not end in time');
  const right = countRight(output, cases);
  const passed = right === cases.length;
  return { code: 'graded', reward: passed ? 1 : 0, passed, reason: `${right} of ${cases.length} hidden cases` };
}

async function run(sandbox: Sandbox, timeoutMs: number): Promise<ExecResult> {
  const callId = `${sandbox.id}/grade`;
  return sandbox.exec({ callId, command: COMMAND, timeoutMs, outputLimit: OUTPUT_BYTES, fresh: true });
}

type Candidate = Omit<SandboxSpec, 'id'>;

async function runAfresh(candidate: Candidate, provider: SandboxProvider, id: string, timeoutMs: number): Promise<ExecResult> {
  try {
    const sandbox = await provider.create({ ...candidate, id });
    try {
      return await run(sandbox, timeoutMs);
    } finally {
      sandbox.close();
    }
  } finally {
    await provider.destroy(id);
  }
}

/** A time-out may be the host's: what did not end in time is given double, in a sandbox that nothing has run in. */
async function runConfirmed(candidate: Candidate, provider: SandboxProvider, id: string): Promise<ExecResult> {
  const first = await runAfresh(candidate, provider, id, TIMEOUT_MS);
  return first.timedOut ? runAfresh(candidate, provider, `${id}-again`, 2 * TIMEOUT_MS) : first;
}

export async function gradeDiff(problem: Problem, diff: Uint8Array, provider: SandboxProvider, id: string): Promise<Verdict> {
  if (diff.length === 0) return { code: 'graded', reward: 0, passed: false, reason: 'nothing was changed' };
  const files = [...workingTree(problem)].map(([path, content]) => ({ path, content: content as string | Uint8Array }));
  files.push({ path: PATCH, content: diff }, { path: '/tmp/driver.py', content: driver(problem.hidden) });
  try {
    const candidate = { workdir: WORKDIR, files, env: {}, limits: LIMITS, ttlSeconds: TTL_SECONDS };
    return judge(await runConfirmed(candidate, provider, id), problem.hidden);
  } catch (error) {
    if (!(error instanceof SandboxLost || error instanceof SandboxUnavailable)) throw error;
    return { code: 'grader-failed', reason: error.message };
  }
}
