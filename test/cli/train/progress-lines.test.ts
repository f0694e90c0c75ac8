/** Hunts a live line that hides the run's state, or that a narrow terminal wraps instead of overwriting it. */
import { expect, it } from 'vitest';
import { screenOn } from '../../../cli/train/follow.ts';
import { breakLine, fitLine } from '../../../cli/terminal-text.ts';
import { barText, liveLines, progressBar, stepLine } from '../../../cli/train/format.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';

const status: TrainStatus = {
  run: 'r',
  phase: 'rollouts',
  step: 3,
  steps: 9,
  workedSeconds: 60,
  policyVersion: 3,
  batch: { name: 'step-4', total: 8 },
  recent: [],
};
const progress = { started: 6, ended: 4, total: 8, passed: 3, failed: 1 };

it('shows the current batch, its progress and its results', () => {
  expect(progressBar(status, progress)).toBe(
    '████████████░░░░░░░░░░░░ step-4 4/8 · rollouts · 2 running, 3 passed, 1 failed · policy v3',
  );
  expect(liveLines(status, progress)).toEqual([
    'rollouts; 3 of 9 steps done, policy v3',
    'step-4: 4 of 8 rollouts ended (3 passed, 1 failed), 2 running',
  ]);
});

it('shows which batches run and which wait if rollouts overlap with updates', () => {
  expect(liveLines({ ...status, overlap: { running: 5, waiting: 2 } }, progress).at(-1)).toBe(
    '5 batches are running, 2 have ended and wait for their step',
  );
});

it('distinguishes a pause in effect from one that waits for the end of the step', () => {
  expect(liveLines({ ...status, phase: 'paused', pauseAt: 'turn' }, progress)[0]).toMatch(/^paused at a turn;/);
  expect(liveLines({ ...status, pauseAt: 'step' }, progress)[0]).toMatch(/^rollouts, pauses before the next step;/);
  expect(liveLines({ ...status, phase: 'paused', pauseAt: 'step' }, progress)[0]).toMatch(
    /^paused before the next step;/,
  );
});

it('a run without a batch has no line for one', () => {
  const { batch: _, ...rest } = status;
  expect(liveLines({ ...rest, batch: null }, { ...progress, total: 0 }).length).toBe(1);
});

it('the line that is overwritten fits the terminal, and is left out without one', () => {
  const written: string[] = [];
  const stream = (isTTY: boolean, columns: number) =>
    ({ isTTY, columns, write: (text: string) => written.push(text) > 0 }) as unknown as NodeJS.WriteStream;
  screenOn(stream(true, 30)).bar(progressBar(status, progress));
  screenOn(stream(false, 30)).bar('nothing');
  expect(written).toEqual([`\r\u001b[2K${'█'.repeat(4)}${'░'.repeat(3)} step-4 4/8 · rollouts`]);
});

const fitted = (columns: number) => fitLine(progressBar(status, progress), columns);

it('a narrow terminal has a shorter bar, then fewer fields, and no half of a word', () => {
  expect(fitted(120)).toBe(progressBar(status, progress));
  expect(fitted(80)).toBe('███████░░░░░░░ step-4 4/8 · rollouts · 2 running, 3 passed, 1 failed · policy v3');
  expect(fitted(60)).toBe('███░░░ step-4 4/8 · rollouts · 2 running, 3 passed, 1 failed');
  expect(fitted(12)).toBe('step-4 4/8');
  expect(fitted(6)).toBe('step-…');
});

it.each([120, 80, 60, 40, 30, 20, 11])('in %i columns each line is a start of its fields, whole', (columns) => {
  const whole = progressBar(
    { ...status, phase: 'paused', pauseAt: 'step', policyVersion: 12_345 },
    { started: 1_234, ended: 1_000, total: 2_048, passed: 900, failed: 100 },
  );
  const line = fitLine(whole, columns);
  const fields = whole.replace(/^[█░]+ /u, '').split(' · ');
  expect(line.length).toBeLessThanOrEqual(columns);
  const shown = line.replace(/^[█░]+ /u, '').split(' · ');
  if (!line.endsWith('…')) expect(shown).toEqual(fields.slice(0, shown.length));
});

it('a line of an eval, and one without a bar, fit as well', () => {
  const line = barText(30, 60, 'starter-t0.7 30/60 · rollouts · cell 2 of 3');
  expect([120, 60, 50].map((columns) => fitLine(line, columns))).toEqual([
    line,
    `${'█'.repeat(8)}${'░'.repeat(8)} ${line.slice(25)}`,
    '███░░░ starter-t0.7 30/60 · rollouts · cell 2 of 3',
  ]);
  expect(fitLine('resolving · now', 11)).toBe('resolving');
});

const record = {
  step: 3,
  policyVersion: 3,
  rewardMean: 0.531,
  passRate: 0.531,
  groups: 6,
  valid: 30,
  masked: { 'sandbox-lost': 2 },
  dropped: {},
  sampledTokens: 2091,
  trainedTokens: 1,
  prefixBreaks: 0,
  seconds: { rollout: 4.2, train: 0.9, total: 5.1 },
  learningRate: 1,
  loss: 0,
  kl: 0,
  entropy: 0,
  gradNorm: 0,
  logprobDrift: { meanAbs: 0, maxAbs: 0 },
};

it('a step in which no group varied says that nothing was learned, and no other step does', () => {
  const said = 'no group varied: nothing learned';
  expect(stepLine({ ...record, groupRewards: { varied: 0, alike: 6 } })).toContain(said);
  expect(stepLine({ ...record, groupRewards: { varied: 1, alike: 5 } })).not.toContain(said);
  expect(stepLine({ ...record, groupRewards: { varied: 0, alike: 0 } })).not.toContain(said);
  expect(stepLine(record)).not.toContain(said);
});

it.each([120, 80, 60])(
  'a line that stays is broken in %i columns between its fields, and keeps all of them',
  (columns) => {
    const line = stepLine(record, 20);
    const lines = breakLine(line, columns).split('\n');
    expect(Math.max(...lines.map((one) => one.length))).toBeLessThanOrEqual(columns);
    expect(lines.map((one) => one.trim()).join(' · ')).toBe(line);
    expect(breakLine(line, 400)).toBe(line);
  },
);
