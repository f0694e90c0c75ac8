/**
 * Hunts a second grading that changes the first, grades twice what it has graded, makes a 0 of a failure, or grades what
 * it cannot. Sandboxes are not used.
 */
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordBundle } from '../../../activities/orchestrator/open-modules.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { bundleModules } from '../../../modules/bundle.ts';
import type { ActRecord, GenerateRecord, OutcomeRecord, StartRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { evalKeys, type EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import { openStore, sqliteUrl } from '../../../store/open-store.ts';
import { putCatalog } from '../../../store/read-records.ts';
import type { Store } from '../../../store/store.ts';
import { turn } from '../../reports/export/recorded-run.ts';

let dir: string;
let env: NodeJS.ProcessEnv;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-rescore-test-')));
  env = { ...process.env, LONGHAUL_HOME: join(dir, 'home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'store')) };
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Answers are numbers; the task's index is right. `grade` is the body of the grader, `more` further members. */
function writeModule(grade: string, more = ''): void {
  const lines = [
    "import { appendFileSync } from 'node:fs';",
    "import { defineEnvironment } from 'longhaul';",
    'defineEnvironment({',
    "  name: 'numbers',",
    "  open: async () => ({ digest: 'numbers', splits: { test: 100 }, load: async (_split, index) => ({",
    "    messages: [{ role: 'user', content: `Say ${index}.` }],",
    '    tools: [],',
    '    async grade(_ctx, { answer, state, turnRewards, transcript }) {',
    `      appendFileSync(${JSON.stringify(join(dir, 'graded'))}, index + ' ' + answer + '\\n');`,
    `      ${grade}`,
    '    },',
    `    ${more}`,
    '  }) }),',
    '});',
  ];
  writeFileSync(join(dir, 'numbers.ts'), lines.join('\n'));
}

const verdict = (passed: string, reward = `(${passed}) ? 1 : 0`) =>
  `return { code: 'graded', reward: ${reward}, passed: ${passed}, reason: 'said ' + answer };`;

interface Given {
  readonly said: string;
  readonly end: number | OutcomeRecord['failure'];
  readonly steps?: ReadonlyArray<{ readonly said: string; readonly act: ActRecord; readonly path?: readonly string[] }>;
}

async function withStore<T>(body: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(sqliteUrl(join(dir, 'store')));
  try {
    return await body(store);
  } finally {
    await store.close();
  }
}

const rolloutOf = (index: number) => `eval/e/p/s/numbers-test-${index}/0`;

/** An eval that has asked for the numbers and graded what was said. */
async function recordEval(rollouts: readonly Given[]): Promise<void> {
  const paths = [join(dir, 'numbers.ts')];
  await withStore(async (store) => {
    const modules = await recordBundle(await bundleModules(paths), store);
    const catalog = await putCatalog(
      { sources: { numbers: { environment: 'numbers', options: {}, digest: 'numbers' } }, modules },
      store,
    );
    await store.putOnce(evalKeys.record('e'), {
      eval: 'e',
      evalDir: dir,
      startedAt: '2026-01-01T00:00:00.000Z',
      config: {
        eval: 'e',
        modules: paths,
        tasks: { ids: [] },
        sampling: [{ name: 's' }],
        bootstrap: { confidence: 0.95 },
      },
      catalog,
      policies: [],
    } as unknown as EvalRecord);
    for (const [i, { said, end, steps = [] }] of rollouts.entries()) {
      const rollout = rolloutOf(i);
      const attempt = { run: 'eval/e', rollout, attempt: 1, task: `numbers-test-${i}` };
      const turns = [
        ...steps.map(({ said: text, path: agentPath }) =>
          turn([1], [2], text, { command: { do: 'step' }, ...(agentPath && { agentPath }) }),
        ),
        ...(steps.length === 0 ? [turn([1], [2], said, { command: { do: 'answer' } })] : []),
      ];
      for (const [at, record] of turns.entries())
        await store.putOnce<GenerateRecord>(keys.generate(attempt, at + 1), record);
      for (const [at, { act }] of steps.entries()) await store.putOnce<ActRecord>(keys.act(attempt, at + 1), act);
      if (steps.length > 0) await store.putOnce<StartRecord>(keys.start(attempt), { state: { count: 0 } });
      const isGraded = typeof end === 'number';
      await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
        rollout,
        task: attempt.task,
        catalog,
        attempt: 1,
        turns: turns.length,
        status: isGraded ? 'graded' : 'failed',
        reward: isGraded ? end : null,
        passed: typeof end === 'number' && end >= 1,
        finish: end === 'sandbox-unavailable' ? null : steps.length > 0 ? 'done' : 'answer',
        failure: isGraded ? null : end,
        reason: 'then',
      });
    }
  });
}

interface Document {
  readonly name: string;
  readonly modules: { readonly changed: boolean };
  readonly counts: Record<string, number>;
  readonly newlyGraded: number;
  readonly both: { readonly rollouts: number; readonly passRate: Record<string, { mean: number }> };
  readonly rollouts: ReadonlyArray<Record<string, unknown>>;
  readonly error: Record<string, unknown>;
}

async function rescore(args: readonly string[] = [], signal = new AbortController().signal) {
  let out = '';
  const exitCode = await runCommandLine(['rescore', 'eval/e', ...args, '--json'], {
    out: (text) => void (out += text),
    err: () => undefined,
    env,
    cwd: dir,
    signal,
  });
  return { exitCode, document: JSON.parse(out) as Document };
}

const graded = () => readFileSync(join(dir, 'graded'), 'utf8').trim().split('\n').toSorted();
const first = () =>
  withStore(async (store) => ({
    outcomes: await store.list(keys.outcome('')),
    verdicts: await store.list('verdict:'),
    events: await store.events('eval/e'),
  }));

describe('longhaul rescore', () => {
  it('shows what another grader says, and keeps the first verdicts', async () => {
    writeModule(verdict('answer === String(index)'));
    await recordEval([
      { said: '0', end: 1 },
      { said: '1.0', end: 0 },
      { said: 'two', end: 0 },
      { said: '3', end: 'grader-failed' },
      { said: '4', end: 'sandbox-unavailable' },
    ]);
    const before = await first();
    writeModule(verdict('Number(answer) === index'));
    const { exitCode, document } = await rescore(['--concurrency', '2']);
    expect(exitCode).toBe(0);
    expect(document).toMatchObject({
      modules: { changed: true },
      counts: { same: 2, changed: 2, failed: 0, refused: 0, skipped: 1 },
      newlyGraded: 1,
      both: { rollouts: 3, passRate: { before: { mean: 1 / 3 }, after: { mean: 2 / 3 } } },
    });
    expect(document.rollouts).toMatchObject([
      { rollout: rolloutOf(0), status: 'same' },
      { rollout: rolloutOf(1), status: 'changed', before: { reward: 0 }, after: { reward: 1, reason: 'said 1.0' } },
      { rollout: rolloutOf(2), status: 'same', after: { reward: 0 } },
      { rollout: rolloutOf(3), status: 'changed', before: null, failure: 'grader-failed', after: { reward: 1 } },
      { rollout: rolloutOf(4), status: 'skipped', after: null },
    ]);
    expect(await first()).toEqual(before);
    const again = await rescore();
    expect(again.document.rollouts).toEqual(document.rollouts);
    expect(graded()).toEqual(['0 0', '1 1.0', '2 two', '3 3']);
  });

  it('--modules run grades as the run started, under a name of its own', async () => {
    writeModule(verdict('answer === String(index)'));
    await recordEval([{ said: '0.0', end: 0 }]);
    writeModule(verdict('true'));
    const [today, then] = [await rescore(), await rescore(['--modules', 'run'])];
    expect(today.document).toMatchObject({ counts: { changed: 1 }, modules: { changed: true } });
    expect(then.document).toMatchObject({ counts: { same: 1 }, modules: { changed: false } });
    expect(then.document.name).not.toBe(today.document.name);
  });

  it('a grader that throws is a failure, not a 0, and the next call grades only what failed', async () => {
    writeModule(verdict('true'));
    await recordEval([
      { said: '0', end: 1 },
      { said: '1', end: 1 },
    ]);
    writeModule(`if (index === 1) throw new Error('no room'); ${verdict('true')}`);
    const broken = await rescore(['--as', 'mended']);
    expect(broken).toMatchObject({ exitCode: 1, document: { counts: { same: 1, failed: 1 }, both: { rollouts: 1 } } });
    expect(broken.document.rollouts[1]).toMatchObject({ status: 'failed', after: null });
    expect(broken.document.rollouts[1]?.['why']).toContain('no room');
    writeModule(verdict('true'));
    expect(await rescore(['--as', 'mended'])).toMatchObject({ exitCode: 0, document: { counts: { same: 2 } } });
    expect(graded()).toEqual(['0 0', '1 1', '1 1']);
  });

  it('continues after an interruption', async () => {
    writeModule(verdict('true'));
    await recordEval(Array.from({ length: 6 }, (_, i) => ({ said: String(i), end: 1 })));
    const stop = new AbortController();
    // The third grading interrupts the command.
    Object.assign(globalThis, { stopRescore: () => stop.abort(new Error('stopped')) });
    writeModule(`if (index === 2) globalThis.stopRescore(); ${verdict('true')}`);
    expect(await rescore(['--as', 'long', '--concurrency', '1'], stop.signal)).toMatchObject({ exitCode: 130 });
    const once = graded().length;
    expect(once).toBeLessThan(6);
    Object.assign(globalThis, { stopRescore: () => undefined });
    expect(await rescore(['--as', 'long'])).toMatchObject({ exitCode: 0, document: { counts: { same: 6 } } });
    // What was under way may be graded twice; nothing that was recorded is.
    expect(graded().length).toBeLessThanOrEqual(7);
  });

  it('refuses what is graded in place, and a pruned eval', async () => {
    writeModule(verdict('true'));
    await recordEval([{ said: '0', end: 1 }]);
    writeModule(verdict('true'), "gradedIn: 'agents',");
    const refused = await rescore();
    expect(refused).toMatchObject({ exitCode: 2, document: { error: { field: 'RUN' } } });
    expect(refused.document.error['remedy']).toMatch(/gradedIn: agents.*policies: \[replay:eval\/e\]/);
    await withStore((store) => store.putOnce(keys.pruned('eval/e'), { at: '2026-01-02T00:00:00.000Z' }));
    expect((await rescore()).document.error['remedy']).toContain('prune');
  });

  it.each([
    [['--modules', 'mine'], '--modules'],
    [['--as', 'Mine'], '--as'],
    [['--task', 'numbers-test-9'], '--task'],
    [['--concurrency', '0'], '--concurrency'],
  ])('refuses %j', async (args, field) => {
    writeModule(verdict('true'));
    await recordEval([{ said: '0', end: 1 }]);
    expect(await rescore(args)).toMatchObject({ exitCode: 2, document: { error: { field } } });
  });
});

describe('steps', () => {
  const step = (reward: string, told = "'noted'") =>
    `async step(_ctx, { count }, message) { return { state: { count: count + Number(message) }, messages: [{ role: 'user', content: ${told} }], done: count > 0, reward: ${reward} }; },`;
  const act = (count: number, done?: true): ActRecord => ({
    messages: [{ role: 'user', content: 'noted' }],
    state: { count },
    reward: 0.25,
    ...(done && { done }),
  });
  const steps = [
    { said: '2', act: act(2) },
    { said: '3', act: act(5, true) },
  ];
  const summing =
    "return { code: 'graded', reward: state.count + turnRewards[0] + turnRewards[1], passed: true, reason: '' };";

  it('run again where they are declared pure: the grader sees today’s states and rewards', async () => {
    writeModule(summing, `${step('0.25')} stepIsPure: true,`);
    await recordEval([{ said: '', end: 5.5, steps }]);
    expect((await rescore()).document.rollouts).toMatchObject([{ status: 'same', after: { reward: 5.5 } }]);
    writeModule(summing, `${step('0.5')} stepIsPure: true,`);
    const { document } = await rescore();
    expect(document.rollouts).toMatchObject([{ status: 'changed', after: { reward: 6 } }]);
    const recorded = await withStore((store) =>
      store.get<ActRecord>(keys.act({ run: '', rollout: rolloutOf(0), attempt: 1, task: '' }, 1)),
    );
    expect(recorded?.reward).toBe(0.25);
  });

  it('know again whose message they answer', async () => {
    const more =
      "async step({ agentPath = [] }, _state, message) { return { state: { count: 0 }, messages: [{ role: 'user', content: 'noted' }], done: message === '3', reward: agentPath.length }; },";
    writeModule(summing, `${more} stepIsPure: true,`);
    const path = ['seller@1'];
    await recordEval([{ said: '', end: 1, steps: steps.map((one, i) => ({ ...one, ...(i === 0 && { path }) })) }]);
    expect((await rescore()).document.rollouts).toMatchObject([{ status: 'same', after: { reward: 1 } }]);
  });

  it('are refused where they are not, and fail where they answer otherwise', async () => {
    writeModule(summing, step('0.25'));
    await recordEval([{ said: '', end: 5.5, steps }]);
    const refused = await rescore();
    expect(refused).toMatchObject({ exitCode: 2 });
    expect(refused.document.error['remedy']).toContain('stepIsPure');
    writeModule(summing, `${step('0.25', "'other'")} stepIsPure: true,`);
    const { exitCode, document } = await rescore();
    expect([exitCode, document.counts['failed']]).toEqual([1, 1]);
    expect(document.rollouts[0]?.['why']).toContain('step of turn 1 answers otherwise');
  });
});
