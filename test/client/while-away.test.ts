/** Hunts a `train` or `watch` that fails because the server was restarted while it followed a run. */
import { type Client, ServiceError } from '@temporalio/client';
import { expect, it, vi } from 'vitest';
import { whileAway } from '../../client/while-away.ts';
import { EvalHandle } from '../../client/durable-handle.ts';
import { followEval } from '../../cli/eval/follow.ts';
import type { Longhaul } from '../../client/longhaul.ts';
import { RunHandle } from '../../client/run-handle.ts';
import { followRun } from '../../cli/train/follow.ts';

const away = (over: object = {}) => {
  const lines: string[] = [];
  return {
    lines,
    settings: {
      signal: new AbortController().signal,
      onAway: (line: string) => void lines.push(line),
      retryMs: 1,
      ...over,
    },
  };
};
const gone = () => Promise.reject(new ServiceError('Failed to describe workflow'));

it('asks until the server answers, and says once that it is away', async () => {
  const { lines, settings } = away();
  let asked = 0;
  expect(await whileAway(() => ((asked += 1) < 4 ? gone() : Promise.resolve('there')), settings)).toBe('there');
  expect(lines).toEqual([expect.stringMatching(/does not answer/)]);
});

it('gives up when the server has been away for too long', async () => {
  await expect(whileAway(gone, away({ limitMs: -1 }).settings)).rejects.toBeInstanceOf(ServiceError);
});

it('counts from when the server went away, not from when it was asked', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const { lines, settings } = away({ limitMs: 100_000 });
    let asked = 0;
    // Twice it waits an hour for an answer, and the server ends before it comes.
    const ask = () => {
      vi.advanceTimersByTime(3_600_000);
      return (asked += 1) < 3 ? gone() : Promise.resolve('there');
    };
    expect(await whileAway(ask, settings)).toBe('there');
    expect(lines.length).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

it('does not take a clock that is set for an hour of absence', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  try {
    let asked = 0;
    const settings = away({ limitMs: 100_000, onAway: () => void vi.setSystemTime(Date.now() + 3_600_000) }).settings;
    expect(await whileAway(() => ((asked += 1) < 4 ? gone() : Promise.resolve('there')), settings)).toBe('there');
  } finally {
    vi.useRealTimers();
  }
});

it('does not wait for who answers with a refusal', async () => {
  const refused = () =>
    Promise.reject(
      new ServiceError('Failed to describe workflow', {
        cause: Object.assign(new Error('permission denied'), { code: 7 }),
      }),
    );
  await expect(whileAway(refused, away().settings)).rejects.toThrow('Failed to describe workflow');
});

it('passes on what is no absence, at once', async () => {
  const { lines, settings } = away();
  await expect(whileAway(() => Promise.reject(new TypeError('other')), settings)).rejects.toBeInstanceOf(TypeError);
  expect(lines).toEqual([]);
});

it('ends with the signal', async () => {
  const stop = new AbortController();
  const waiting = whileAway(gone, away({ signal: stop.signal, retryMs: 60_000 }).settings);
  stop.abort();
  await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
});

/** A server that does not answer at first, and then reports that the workflow has ended. */
function awayAtFirst() {
  let asked = 0;
  const describe = () => ((asked += 1) < 2 ? gone() : Promise.resolve({ status: { name: 'COMPLETED' } }));
  const query = () => (asked < 2 ? gone() : Promise.resolve({ step: 1, steps: 1, recent: [{ step: 1 }], done: [] }));
  const result = () => ((asked += 1) < 2 ? gone() : Promise.resolve('its end'));
  const client = {
    workflow: { getHandle: () => ({ describe, query, result }) },
    withDeadline: (_at: number, work: () => Promise<unknown>) => work(),
  } as unknown as Client;
  const lines: string[] = [];
  return {
    client,
    lines,
    screen: { line: (text: string) => void lines.push(text), bar: () => undefined },
    signal: new AbortController().signal,
  };
}
const TOLD = [expect.stringMatching(/does not answer: the run continues by itself/)];

it('a run is followed through it to its end', async () => {
  const { client, lines, screen, signal } = awayAtFirst();
  await followRun(client, 'r', async () => undefined, screen, signal);
  expect(lines).toEqual(TOLD);
});

it('an eval is followed through it to its end', async () => {
  const { client, lines, screen, signal } = awayAtFirst();
  await followEval(
    { client, evaluation: (id: string) => new EvalHandle(client, id) } as unknown as Longhaul,
    'e',
    screen,
    signal,
  );
  expect(lines).toEqual(TOLD);
});

it('a program waits through it for the end of its run, and for each step', async () => {
  const handle = () => new RunHandle(awayAtFirst().client, 'r');
  expect(await handle().result()).toBe('its end');
  const steps: unknown[] = [];
  for await (const step of handle().steps()) steps.push(step);
  expect(steps).toEqual([{ step: 1 }]);
});
