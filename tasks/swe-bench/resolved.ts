/**
 * SWE-bench's rule: an instance is resolved if all of `FAIL_TO_PASS` pass and all of `PASS_TO_PASS` still do. And when
 * a log is no evidence at all: it shows no test, or hides the failures that the runner's exit code says there were.
 */

import type { Status, StatusMap } from './parsers/status.ts';

/** `fail_only`: the runner prints only failures, so a test that the log does not name has passed. */
export type EvalType = 'pass_and_fail' | 'fail_only';

/** In small letters: records differ in the case of some. */
const FAIL_ONLY: ReadonlySet<string> = new Set([
  'chartjs/chart.js',
  'processing/p5.js',
  'markedjs/marked',
  'bpmn-io/bpmn-js',
  'openlayers/openlayers',
  'eslint/eslint',
]);

export const evalTypeOf = (repo: string): EvalType =>
  FAIL_ONLY.has(repo.toLowerCase()) ? 'fail_only' : 'pass_and_fail';

export interface Tests {
  readonly success: readonly string[];
  readonly failure: readonly string[];
}

export interface Resolution {
  readonly failToPass: Tests;
  readonly passToPass: Tests;
  /** `full`: resolved. `partial`: some of `FAIL_TO_PASS` pass, and nothing broke. */
  readonly resolved: 'full' | 'partial' | 'no';
}

const passes = (status: Status | undefined): boolean => status === 'PASSED' || status === 'XFAIL';

const count = (text: string, character: string): number => text.split(character).length - 1;

/**
 * The statuses of tests. Ids in the lists may be cut within their parameters (`test_x[log(photon`): such an id means
 * the tests that start with it, if they all pass or all do not. A log may name as many tests as its bytes hold.
 */
class FoundTests {
  readonly #found: StatusMap;
  #sorted: readonly string[] | undefined;

  constructor(found: StatusMap) {
    this.#found = found;
  }

  statusOf(name: string): Status | undefined {
    const status = this.#found.get(name);
    return status !== undefined || count(name, '[') <= count(name, ']') ? status : this.#ofAll(name);
  }

  #ofAll(begin: string): Status | undefined {
    const names = (this.#sorted ??= [...this.#found.keys()].toSorted((a, b) => (a < b ? -1 : 1)));
    let [first, end] = [0, names.length];
    while (first < end) {
      const middle = Math.floor((first + end) / 2);
      if ((names[middle] ?? '') < begin) first = middle + 1;
      else end = middle;
    }
    let status: Status | undefined;
    for (let at = first; names[at]?.startsWith(begin); at += 1) {
      const one = this.#found.get(names[at] ?? '');
      if (status !== undefined && passes(one) !== passes(status)) return undefined;
      // A failure counts before what was skipped.
      if (status === undefined || status === 'SKIPPED') status = one;
    }
    return status;
  }
}

function divided(names: readonly string[], isRight: (name: string) => boolean): Tests {
  return { success: names.filter(isRight), failure: names.filter((name) => !isRight(name)) };
}

/** A list without tests counts as passed. A test that the log does not name failed, and so did one that was skipped. */
export function resolutionOf(
  found: StatusMap,
  lists: { readonly failToPass: readonly string[]; readonly passToPass: readonly string[] },
  type: EvalType,
): Resolution {
  const tests = new FoundTests(found);
  const hasNotFailed = (name: string) => found.get(name) !== 'FAILED';
  const isFixed = type === 'fail_only' ? hasNotFailed : (name: string) => passes(tests.statusOf(name));
  // A test that is skipped now is no regression.
  const isKept =
    type === 'fail_only' ? hasNotFailed : (name: string) => isFixed(name) || tests.statusOf(name) === 'SKIPPED';
  const failToPass = divided(lists.failToPass, isFixed);
  const passToPass = divided(lists.passToPass, isKept);
  const isWhole = passToPass.failure.length === 0;
  const some = failToPass.success.length > 0;
  const resolved = !isWhole ? 'no' : failToPass.failure.length === 0 ? 'full' : some ? 'partial' : 'no';
  return { failToPass, passToPass, resolved };
}

/** Each number must not be 0: a runner that starts and loses its browser prints a summary too. */
const SUITE_RAN: readonly RegExp[] = [
  /Executed [1-9]\d* of \d+/u,
  /TOTAL: [1-9]\d* (?:SUCCESS|FAILED)/u,
  /\b[1-9]\d* passing/u,
  /Tests:\s{1,20}[1-9]\d*/u,
  /Test Suites:\s{1,20}(?:\d+ \w+, ){0,5}[1-9]\d* total/u,
  /^# tests [1-9]\d*/mu,
  /\b[1-9]\d* specs?, \d+ failures?/u,
  /': ok$/mu,
];

const START = '>>>>> Start Test Output';
const END = '>>>>> End Test Output';
/** What upstream's scripts print if the tests never ran. */
const BAD = ['>>>>> Patch Apply Failed', '>>>>> Reset Failed', '>>>>> Tests Errored', '>>>>> Tests Timed Out'];
const EXIT_CODE = />>>>> Test Exit Code:\s{0,20}(-?\d{1,9})/u;

/** Why a log says nothing about the tests; or the tests that it shows. */
export type Evidence = { readonly found: StatusMap } | { readonly invalid: string };

/**
 * Reads the output of the tests. `exitCode`: of the test command, `null` if it is not known. Python reads logs with
 * universal line ends, and so does this.
 */
export function evidenceIn(output: string, exitCode: number | null, parse: (log: string) => StatusMap): Evidence {
  const log = output.replaceAll(/\r\n?/gu, '\n');
  const found = parse(log);
  if (found.size === 0 && !SUITE_RAN.some((sign) => sign.test(log))) return { invalid: 'it shows no test' };
  const hasFailure = [...found.values()].some((status) => status === 'FAILED' || status === 'ERROR');
  if (exitCode !== null && exitCode !== 0 && found.size > 0 && !hasFailure)
    return { invalid: `the runner ended with ${exitCode}, but no test failed in the log` };
  return { found };
}

/**
 * As `evidenceIn`, for a run of the patch. Where the log names failures alone, a test that it does not name counts as
 * passed: so a log with a gap proves nothing, and neither does a failed run in which nothing failed. `droppedBytes`: of
 * the middle of the output.
 */
export function evidenceOfRun(
  { output, exitCode, droppedBytes }: { output: string; exitCode: number | null; droppedBytes: number },
  parse: (log: string) => StatusMap,
  type: EvalType,
): Evidence {
  const evidence = evidenceIn(output, exitCode, parse);
  if ('invalid' in evidence || type !== 'fail_only') return evidence;
  if (droppedBytes > 0) return { invalid: `${droppedBytes} bytes of its middle are missing` };
  const hasFailure = [...evidence.found.values()].includes('FAILED');
  return exitCode === 0 || hasFailure
    ? evidence
    : { invalid: `the runner ended with ${exitCode ?? 'a signal'}, but no test failed in the log` };
}

/** As `evidenceIn`, for a log of upstream's evaluation, with its marks around the output of the tests. */
export function evidenceInLog(text: string, parse: (log: string) => StatusMap): Evidence {
  const log = text.replaceAll(/\r\n?/gu, '\n');
  const bad = BAD.find((code) => log.includes(code));
  if (bad !== undefined) return { invalid: bad };
  if (!log.includes(START) || !log.includes(END)) return { invalid: 'it has no marks around the output of the tests' };
  const inside = log.split(START)[1]?.split(END)[0] ?? '';
  const code = EXIT_CODE.exec(log)?.[1];
  const exitCode = code === undefined ? null : Number(code);
  const evidence = parse(inside).size > 0 ? inside : log;
  return evidenceIn(evidence, exitCode, parse);
}
