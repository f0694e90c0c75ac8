/** Hunts a live line that hides what a run is at, or that a narrow terminal wraps instead of overwriting it. */
import { expect, it } from 'vitest';
import { screenOn } from '../../cli/train/follow.ts';
import { liveLines, progressBar } from '../../cli/train/format.ts';
import type { TrainStatus } from '../../workflows/messages/train-status.ts';

const status: TrainStatus = { run: 'r', phase: 'rollouts', step: 3, steps: 9, policyVersion: 3, batch: { name: 'step-4', total: 8 }, recent: [] };
const progress = { started: 6, ended: 4, total: 8, passed: 3, failed: 1 };

it('says what is under way, how far it is, and what has come of it', () => {
  expect(progressBar(status, progress)).toBe('████████████░░░░░░░░░░░░ step-4 4/8 · rollouts · 2 running, 3 passed, 1 failed · policy v3');
  expect(liveLines(status, progress)).toEqual([
    'rollouts; 3 of 9 steps done, policy v3',
    'step-4: 4 of 8 rollouts ended (3 passed, 1 failed), 2 running',
  ]);
});

it('says what runs and what waits where rollouts overlap with updates', () => {
  expect(liveLines({ ...status, overlap: { running: 5, waiting: 2 } }, progress).at(-1)).toBe('5 batches run, 2 have ended and wait for their step');
});

it('tells a pause that holds from one that waits for the end of the step', () => {
  expect(liveLines({ ...status, phase: 'paused', pauseAt: 'turn' }, progress)[0]).toMatch(/^paused at a turn;/);
  expect(liveLines({ ...status, pauseAt: 'step' }, progress)[0]).toMatch(/^rollouts, pauses before the next step;/);
  expect(liveLines({ ...status, phase: 'paused', pauseAt: 'step' }, progress)[0]).toMatch(/^paused before the next step;/);
});

it('a run without a batch has no line for one', () => {
  const { batch: _, ...rest } = status;
  expect(liveLines({ ...rest, batch: null }, { ...progress, total: 0 }).length).toBe(1);
});

it('the line that is overwritten is cut to the terminal, and left out where there is none', () => {
  const written: string[] = [];
  const stream = (isTTY: boolean, columns: number) =>
    ({ isTTY, columns, write: (text: string) => written.push(text) > 0 }) as unknown as NodeJS.WriteStream;
  screenOn(stream(true, 30)).bar(progressBar(status, progress));
  screenOn(stream(false, 30)).bar('nothing');
  expect(written).toEqual([`\r\u001b[2K${'█'.repeat(12)}${'░'.repeat(12)} step`]);
});
