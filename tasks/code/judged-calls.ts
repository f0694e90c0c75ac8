/**
 * Grades code by tests that call it (`assert f(2) == 4`). The tests run in one sandbox and the policy's code in
 * another, and calls and answers travel between them as plain values. So the code never meets the tests, what they
 * expect, or the process that decides.
 */

import { randomBytes } from 'node:crypto';
import type { Verdict } from '../../protocol/stages.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { TaskContext } from '../environment.ts';
import {
  answersIn,
  type Bounds,
  type Candidate,
  errorIn,
  gradeCandidate,
  HERE,
  inFreshSandbox,
  type Line,
  NoPython,
  programs,
  whyEnded,
  zero,
} from './candidate-sandbox.ts';

/** The tests of a record, as Python sources. */
export interface Tested {
  /** Run before the tests in their own process, if it compiles: what the record's prompt defines. */
  readonly helpers: string;
  /**
   * A right solution: its top-level names are those that the code must define, its imports those that tests may use.
   */
  readonly reference: string;
  readonly setup: string;
  readonly tests: readonly string[];
  /** The function that the tests' `check` is called with. Empty: the tests call the code by its names. */
  readonly entry: string;
  /**
   * SkyRL-Agent's kinds of tests. `functional`: they follow the code in one program. `program`: a program that imports
   * the code as `solution`. `pytest`: a file of tests that does. Absent: assertions.
   */
  readonly as?: 'functional' | 'program' | 'pytest';
}

/** Rounds of calls whose arguments depend on earlier answers. */
const MOST_ROUNDS = 100;
const MOST_ANSWER_BYTES = 8 << 20;
const OUTPUT_BYTES = 32 << 20;
/** For one round of the tests themselves, which the policy's values can only make slow. */
const JUDGE_CPU_MS = 60_000;
const JUDGE_MS = 600_000;

interface Known {
  readonly call: unknown;
  readonly answer: Line;
}

/** What the tests say about the known answers. */
type Said =
  | { readonly calls: readonly unknown[] }
  | { readonly passed: true }
  | { readonly failed: string }
  | { readonly broken: string };

/** `undefined`: the tests were cut off, or their calls, with the policy's values, are longer than an output may be. */
function saidIn(output: string, marker: string): Said | undefined {
  const at = output.lastIndexOf(marker);
  if (at < 0) return undefined;
  try {
    return JSON.parse(output.slice(at + marker.length)) as Said;
  } catch {
    return undefined;
  }
}

async function ask(judge: Sandbox, known: readonly Known[], round: number, bounds: Bounds): Promise<Said> {
  const marker = randomBytes(16).toString('hex');
  const content = Buffer.from(JSON.stringify(known));
  await judge.write({ callId: `${judge.id}/known-${round}`, path: `${HERE}/known.json`, content, note: 'known' });
  const result = await judge.exec({
    callId: `${judge.id}/round-${round}-${marker}`,
    command:
      `command -v python3 >/dev/null || { echo missing; exit 0; }; cd ${HERE} && PYTHONHASHSEED=0 exec python3 ` +
      `-B -X utf8 judge.py record.json known.json ${marker}`,
    timeoutMs: JUDGE_MS,
    cpuMs: JUDGE_CPU_MS,
    outputLimit: OUTPUT_BYTES,
    alone: true,
  });
  if (result.output === 'missing\n') throw new NoPython(bounds.image ?? "the worker's sandboxes");
  const said = saidIn(result.output, `\n${marker}`);
  if (said !== undefined) return said;
  // The first round has no value of the policy's: what is wrong there is the record's or the machine's.
  const isSpent = result.signal === 'SIGXCPU' || result.outOfMemory || (result.exitCode !== null && !result.timedOut);
  const why = result.signal ?? (result.timedOut ? 'not in time' : `exit code ${result.exitCode ?? 'unknown'}`);
  return isSpent && round > 0
    ? { failed: `the tests could not use the results (${why})` }
    : { broken: `the tests were cut off (${why}): ${result.output.slice(-300)}` };
}

/** Makes all calls in a new process of the code; returns the answers to those that are not known. */
async function answersTo(
  candidate: Candidate,
  calls: readonly unknown[],
  known: number,
  seconds: number,
): Promise<Line[] | string> {
  await candidate.calls(calls);
  const { answers, end } = answersIn(await candidate.run());
  const [loaded, ...given] = answers;
  if (loaded?.['loaded'] !== true) return `the code does not run: ${errorIn(loaded) ?? `it ${whyEnded(end, seconds)}`}`;
  if (given.length < calls.length) return `the code ${whyEnded(end, seconds)}`;
  return given.slice(known, calls.length);
}

async function judged(candidate: Candidate, judge: Sandbox, bounds: Bounds): Promise<Verdict> {
  let known: Known[] = [];
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const said = await ask(judge, known, round, bounds);
    if ('passed' in said)
      return { code: 'graded', reward: 1, passed: true, reason: `all tests, ${known.length} calls` };
    if ('failed' in said) return zero(said.failed);
    if ('broken' in said) return { code: 'grader-failed', reason: `the record's tests cannot be run: ${said.broken}` };
    const calls = [...known.map(({ call }) => call), ...said.calls];
    const answers = await answersTo(candidate, calls, known.length, bounds.seconds);
    if (typeof answers === 'string') return zero(answers);
    known = [...known, ...said.calls.map((call, i) => ({ call, answer: answers[i] ?? {} }))];
  }
  // Answers decide which calls follow: the code may be what makes it so long.
  return zero(`the tests made more than ${MOST_ROUNDS} rounds of calls`);
}

/** The verdict on code, of which the first source that compiles is run. */
export async function gradeByCalls(
  sources: readonly string[],
  tested: Tested,
  bounds: Bounds,
  { provider, id }: Pick<TaskContext, 'provider' | 'id'>,
): Promise<Verdict> {
  if (sources.every((source) => source.trim() === '')) return zero('there is no code');
  const files = [
    ...programs('judge.py', 'typed_values.py'),
    { path: `${HERE}/record.json`, content: JSON.stringify(tested) },
  ];
  const name = tested.as === undefined ? 'answer' : tested.as === 'functional' ? '__main__' : 'solution';
  const job = { kind: 'calls', sources, name, prelude: false, each: false, mostBytes: MOST_ANSWER_BYTES } as const;
  return gradeCandidate(job, bounds, provider, `${id}-code`, (candidate) =>
    inFreshSandbox(provider, `${id}-tests`, bounds, files, (judge) => judged(candidate, judge, bounds)),
  );
}
