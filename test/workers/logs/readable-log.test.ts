/** Hunts log lines that people cannot read: JSON that is shown as such, and other output that is swallowed. */

import { expect, it } from 'vitest';
import { readableLine, readLogLine } from '../../../workers/logs/readable-log.ts';

const record = (over: object = {}) =>
  JSON.stringify({
    level: 'warn',
    time: '2026-01-02T03:04:05.678Z',
    role: 'gpu',
    pid: 7,
    message: 'it is late',
    ...over,
  });
const HEAD = '2026-01-02T03:04:05.678Z WARN gpu:';

it.each([
  ['time, level, role and message', {}, `${HEAD} it is late`],
  ['the run', { runId: 'r', workflowId: 'train/r/step-1' }, `${HEAD} it is late (run r)`],
  [
    'the rollout, what was done for it and which try it was',
    { runId: 'r', rolloutId: 'train/r/step-1/t/0', activity: 'generate', attempt: 3, durationMs: 5 },
    `${HEAD} it is late (train/r/step-1/t/0, generate, attempt 3)`,
  ],
  ['what only its writer knows', { seconds: 3 }, `${HEAD} it is late {"seconds":3}`],
  [
    'an error, its calls and its causes',
    {
      error: {
        class: 'SandboxLost',
        message: 'gone',
        stack: 'Error: gone\n    at one (a.ts:1:2)\n    at two',
        cause: { class: 'Error', message: 'why', stack: 'Error: why\n    at three' },
      },
    },
    `${HEAD} it is late\n    SandboxLost: gone\n    at one (a.ts:1:2)\n    at two\n    caused by Error: why\n    at three`,
  ],
  [
    'once what the line and its error both say',
    { error: { class: 'Unreachable', message: 'it is late', stack: 'Unreachable: it is late\n    at one' } },
    `${HEAD} Unreachable: it is late\n    at one`,
  ],
  ['an error that is a text', { error: 'no such thing' }, `${HEAD} it is late\n    no such thing`],
])('shows %s', (_what, over, expected) => {
  expect(readableLine(record(over))).toBe(expected);
});

it.each([
  ['', 'nothing'],
  ['2026-01-02 03:04:05.678: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.', 'a native library'],
  ['{"level":"info","ts":"2026-01-02T03:04:05.678Z","msg":"started"}', 'another program in JSON'],
  ['{"level":"warn","time":"2026-01-02T03:0', 'a line that was cut'],
  ['[1, 2]', 'other JSON'],
  ['{}', 'an empty object'],
])('leaves %j of %s as it is', (line) => {
  expect([readableLine(line), readLogLine(line)]).toEqual([line, undefined]);
});
