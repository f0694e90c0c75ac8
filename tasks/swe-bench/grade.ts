/**
 * Grades a patch by SWE-bench's rule. What the policy can cause is graded 0; what it cannot is the grader's failure,
 * which is retried and then masked. Where both are possible (no end in time, a killed run, a log without tests), a
 * control decides: the same tests without the patch, in a sandbox of their own. If the control shows tests, the machine
 * and the image work, and the patch is at fault. A run that was killed is also graded again first, in another sandbox.
 */

import type { Verdict } from '../../protocol/stages.ts';
import type { TaskContext, Work } from '../environment.ts';
import { whyNoDiff } from '../swe-mini/collect.ts';
import type { Machine } from '../resources.ts';
import { type Instance, testFilesOf } from './instance.ts';
import { parserNamed } from './parsers/index.ts';
import { type Candidate, candidateOf, pathsOf, sectionsOf } from './patch.ts';
import { agreementOf, summaryIn } from './r2e.ts';
import { evidenceOfRun, type EvalType, resolutionOf } from './resolved.ts';
import { type Run, runTests, type TestPlan } from './run-tests.ts';
import { buildCommand } from './test-commands.ts';

type RanTests = Extract<Run, { kind: 'ran' }>;

export interface Grading {
  readonly instance: Instance;
  readonly plan: TestPlan;
  readonly parser: string;
  readonly evalType: EvalType;
  /** Of the sandboxes that grade. */
  readonly machine: Machine;
  /** True if the agent's sandboxes are made in another way: then `ctx.sandbox` would give the wrong one. */
  readonly own: boolean;
  readonly seconds: number;
}

const zero = (reason: string, more: Partial<Extract<Verdict, { code: 'graded' }>> = {}): Verdict => ({
  code: 'graded',
  reward: 0,
  passed: false,
  reason,
  ...more,
});

const failed = (reason: string): Verdict => ({ code: 'grader-failed', reason });

/** Part of the time that is left for the patch's own run. The rest is for a control. */
const SHARE = 0.6;
const LEAST_MS = 10_000;

/** Names that pytest loads without being asked. A patch may not change them, unless the gold patch does. */
const isLoaded = (path: string): boolean => /(?:^|\/)(?:conftest|sitecustomize|usercustomize)\.py$/u.test(path);

/** As patches are read: each byte a character. */
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1');

/** The files of the hidden tests, as they were at the start when the tests run. */
export function testPathsOf(instance: Instance): string[] {
  return instance.testPatch === '' ? testFilesOf(instance).map(bytesOf) : pathsOf(bytesOf(instance.testPatch));
}

/** The files that a patch may not change. */
export function withheldFrom(instance: Instance): (path: string) => boolean {
  const { gold, expected } = instance;
  const hidden = new Set([...testPathsOf(instance), ...instance.assets.map(bytesOf)]);
  const right = new Set(pathsOf(bytesOf(gold?.patch ?? '')));
  const isHarness = (path: string) => expected !== undefined && /^(?:r2e_tests(?:\/|$)|run_tests\.sh$)/u.test(path);
  return (path) => hidden.has(path) || isHarness(path) || (isLoaded(path) && !right.has(path));
}

/** Why there is nothing in the output to judge; `undefined`: there is. */
function withoutTests({ instance, parser, evalType }: Grading, run: RanTests) {
  if (instance.expected !== undefined) return summaryIn(run.output).size === 0 ? 'it shows no test' : undefined;
  const evidence = evidenceOfRun(run, parserNamed(parser, instance.version), evalType);
  return 'invalid' in evidence ? evidence.invalid : undefined;
}

function droppedNote({ dropped }: Candidate): string {
  if (dropped.length === 0) return '';
  const some = dropped.slice(0, 3).map(({ path, why }) => `${path} (${why})`);
  return `; not taken: ${some.join(', ')}${dropped.length > 3 ? ` and ${dropped.length - 3} more` : ''}`;
}

const share = (part: number, whole: number): number => (whole === 0 ? 1 : part / whole);

function verdictOn(grading: Grading, run: RanTests, note: string): Verdict {
  const { instance, parser, evalType } = grading;
  if (instance.expected !== undefined) {
    const { right, expected, found, agrees } = agreementOf(run.output, instance.expected);
    const reason = `${right} of ${expected} tests have the expected status, ${found} ran${note}`;
    return {
      code: 'graded',
      reward: agrees ? 1 : 0,
      passed: agrees,
      reason,
      parts: { expected: share(right, expected) },
    };
  }
  const evidence = evidenceOfRun(run, parserNamed(parser, instance.version), evalType);
  if ('invalid' in evidence) return zero(`the log of the tests is invalid: ${evidence.invalid}${note}`);
  const { failToPass, passToPass, resolved } = resolutionOf(evidence.found, instance, evalType);
  const passed = resolved === 'full';
  const [wanted, kept] = [instance.failToPass.length, instance.passToPass.length];
  const first = [...failToPass.failure, ...passToPass.failure][0];
  const reason =
    `${failToPass.success.length} of ${wanted} tests fixed, ${passToPass.success.length} of ${kept} ` +
    `kept${first === undefined ? '' : `; first failure: ${first.slice(0, 200)}`}${note}`;
  return {
    code: 'graded',
    reward: passed ? 1 : 0,
    passed,
    reason,
    parts: { fixed: share(failToPass.success.length, wanted), kept: share(passToPass.success.length, kept) },
    metrics: { tests: evidence.found.size, partial: resolved === 'partial' ? 1 : 0 },
  };
}

/**
 * A further sandbox, made as the graded one, without the patch. Returns what is wrong with it; `undefined`: nothing.
 */
async function control(ctx: TaskContext, grading: Grading, timeoutMs: number): Promise<string | undefined> {
  const { machine, plan, seconds } = grading;
  const { network: _, ...spec } = machine;
  const id = `${ctx.id}-control`;
  try {
    const sandbox = await ctx.provider.create({ ...spec, id, ttlSeconds: seconds });
    try {
      const run = await runTests(sandbox, id, plan, undefined, timeoutMs);
      if (run.kind === 'ran') return withoutTests(grading, run);
      return run.kind === 'cut-off' ? run.cause : run.reason;
    } finally {
      sandbox.close();
    }
  } finally {
    await ctx.provider.destroy(id);
  }
}

/** The time in milliseconds that is left for the tests. */
const leftMs = ({ deadline }: TaskContext, { seconds }: Grading): number =>
  Math.max(LEAST_MS, Math.min(deadline - Date.now(), seconds * 1000));

async function firstRun(ctx: TaskContext, grading: Grading, candidate: Candidate): Promise<Run> {
  const { machine, own, plan, instance, seconds } = grading;
  const { network: _, ...spec } = machine;
  const sandbox = own
    ? await ctx.provider.create({ ...spec, id: `${ctx.id}-own`, ttlSeconds: seconds })
    : await ctx.sandbox();
  const touched = sectionsOf(candidate.patch).map(({ path }) => path);
  const build = buildCommand(instance, touched);
  const prepare = [plan.script.prepare, build].filter((part) => part !== '').join('\n');
  const timeoutMs = leftMs(ctx, grading) * SHARE;
  return await runTests(
    sandbox,
    `${ctx.id}/tests`,
    { ...plan, script: { ...plan.script, prepare } },
    candidate,
    timeoutMs,
  );
}

/** What is wrong with a run, if it may be the machine's fault. */
function doubtOf(grading: Grading, run: Run): string | undefined {
  if (run.kind === 'cut-off') return run.cause;
  if (run.kind === 'no-tests') return `the hidden tests do not apply: ${run.reason}`;
  return run.kind === 'ran' ? withoutTests(grading, run) : undefined;
}

/** Errors: those of the sandbox. */
export async function gradePatch(ctx: TaskContext, { artifact }: Work, grading: Grading): Promise<Verdict> {
  const none = whyNoDiff(artifact);
  if (none !== undefined) return zero(`no patch could be taken: ${none}`);
  const candidate = candidateOf(artifact, withheldFrom(grading.instance));
  const note = droppedNote(candidate);
  if (candidate.patch === '') return zero(note === '' ? 'nothing was changed' : `nothing is left to grade${note}`);
  const run = await firstRun(ctx, grading, candidate);
  if (run.kind === 'not-applied') return zero(`the patch does not apply: ${run.reason}${note}`);
  const doubt = doubtOf(grading, run);
  if (doubt !== undefined) {
    const wrong = await control(ctx, grading, leftMs(ctx, grading));
    if (wrong !== undefined)
      return failed(`the tests gave no result (${doubt}), and neither did they without the patch (${wrong})`);
    if (run.kind === 'cut-off' && !run.late && ctx.execution === 1)
      return failed(`the tests were cut off (${doubt}), and not without the patch: they run once more`);
  }
  if (run.kind === 'ran') return verdictOn(grading, run, note);
  return zero(`${doubt ?? 'the tests gave no result'}, and the tests run without the patch${note}`);
}
