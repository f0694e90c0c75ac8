/**
 * Twelve kills in one short run, through the command line: every worker, the trainer at its update, the server (once
 * down for 30 s), the supervisor, sandboxes and the waiting client. Why: that a crash loses nothing is this project's
 * one promise. Asserted: the same weights as undisturbed, and whole accounting, recomputed here from the table as users
 * get it. Not asserted: how long anything takes to come back (docs/results.md has a measurement).
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RunSummary } from '../../reports/run-summary.ts';
import type { ChaosReport } from '../../chaos/run-chaos.ts';
import { askedHere, longhaul } from '../support/cli.ts';

interface Event {
  readonly rollout: string;
  readonly event: string;
}

const dir = mkdtempSync(join(tmpdir(), 'longhaul-chaos-test-'));
const ENDS = ['trained', 'masked', 'dropped', 'evaluated'];
let report: ChaosReport;

beforeAll(async () => {
  const { code, stdout, stderr } = await longhaul(
    ['chaos', '--kills', '12', '--seed', '1', '--dir', dir, '--json'],
    dir,
    600_000,
  );
  expect(code, `${stderr}\n${stdout.slice(-4000)}`).toBe(0);
  report = JSON.parse(stdout) as ChaosReport;
  expect(stderr.match(/^kill \d+\/12: /gm)?.length).toBe(12);
}, 620_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function environmentOf(pid: string): string {
  try {
    return readFileSync(join('/proc', pid, 'environ'), 'utf8');
  } catch {
    return '';
  }
}

const summaryOf = (run: string) =>
  JSON.parse(readFileSync(join(dir, 'runs', run, 'summary.json'), 'utf8')) as RunSummary;

it('kills everybody once, and each comes back as another process', () => {
  expect(report.kills.map((kill) => kill.process).sort()).toEqual([
    'agent-run',
    'client',
    'gpu',
    'init',
    'orchestrator',
    'reward',
    'sandbox',
    'sandbox-supervisor',
    'supervisor',
    'temporal',
    'temporal-down',
    'trainer',
  ]);
  for (const { process: name, pid, newPid, recoveredMs } of report.kills) {
    expect(recoveredMs, name).not.toBeNull();
    if (newPid !== null) expect(newPid, name).not.toBe(pid);
  }
});

it('ends with the same weights as the run that nobody disturbed, step by step', () => {
  expect(report).toMatchObject({
    seed: 1,
    identical: true,
    problems: [],
    runs: { disturbed: join(dir, 'runs', 'disturbed'), reference: join(dir, 'runs', 'reference') },
  });
  const [disturbed, reference] = [summaryOf('disturbed'), summaryOf('reference')];
  expect(disturbed.checkpoints.at(-1)?.sha256).toBe(report.checkpoint);
  expect(reference.checkpoints.at(-1)?.sha256).toBe(report.checkpoint);
  const learnt = ({ steps }: RunSummary) =>
    steps.map(({ step, rewardMean, trainedTokens, loss, gradNorm }) => ({
      step,
      rewardMean,
      trainedTokens,
      loss,
      gradNorm,
    }));
  expect(learnt(disturbed)).toEqual(learnt(reference));
  expect(disturbed.steps.length).toBeGreaterThanOrEqual(3);
  expect(disturbed.steps.some(({ trainedTokens }) => trainedTokens > 0)).toBe(true);
});

it.each(['disturbed', 'reference'])(
  'of the run %s nothing is lost or done twice, by its append-only table',
  async (run) => {
    const { events } = await askedHere<{ events: Event[] }>(['rollouts', run], dir);
    const dispatched = new Set(events.filter(({ event }) => event === 'dispatched').map(({ rollout }) => rollout));
    const ends = events.filter(({ event }) => ENDS.includes(event));
    expect(dispatched.size).toBe(3 * 4 * report.steps + 2 * 4);
    expect(new Set(ends.map(({ rollout }) => rollout))).toEqual(dispatched);
    expect(ends.length).toBe(dispatched.size);
    expect(events.filter(({ event }) => event === 'end-refused')).toEqual([]);
    const count = (name: string) => ends.filter(({ event }) => event === name).length;
    const [trained, masked, dropped, evaluated] = ENDS.map(count);
    if (run === 'disturbed')
      expect(report.accounting).toEqual({
        dispatched: dispatched.size,
        trained,
        masked,
        dropped,
        evaluated,
        lost: 0,
        duplicated: 0,
      });
    expect(masked).toBe(0);
  },
);

it('begins again at most what was under way when something was killed', () => {
  const underWay = (what: 'modelCalls' | 'toolCalls') =>
    report.kills.reduce((sum, kill) => sum + kill.underWay[what], 0);
  expect(report.repeated.modelCalls).toBeLessThanOrEqual(underWay('modelCalls'));
  expect(report.repeated.toolCalls).toBeLessThanOrEqual(underWay('toolCalls'));
  expect(underWay('modelCalls') + underWay('toolCalls')).toBeGreaterThan(0);
});

it('leaves no process of its stack behind, also none that a killed supervisor had just started', async () => {
  const mine = () =>
    readdirSync('/proc').filter((pid) => /^\d+$/u.test(pid) && environmentOf(pid).includes(`LONGHAUL_HOME=${dir}`));
  await expect.poll(mine, { interval: 1000 }).toEqual([]);
});
