/** Hunts lines that a dying process loses, errors without class or stack, and text that would steer a terminal. */

import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { openProcessLog } from '../../../workers/logs/process-log.ts';
import { type LogRecord, readLogLine } from '../../../workers/logs/readable-log.ts';

const LINES = 2_000;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-process-log-'));
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

/** A process that writes `LINES` lines and ends by the code in `ending`; its stderr is a pipe, and then a file. */
function endedBy(ending: string) {
  const program = `
    import { logCrashes, openProcessLog } from ${JSON.stringify(join(packageRoot, 'workers', 'logs', 'process-log.ts'))};
    const log = openProcessLog('init');
    logCrashes(log);
    for (let i = 0; i < ${LINES}; i++) log.info({ i }, 'x'.repeat(100));
    ${ending}`;
  const path = join(dir, 'log');
  const file = openSync(path, 'w');
  const [piped, filed] = (['pipe', file] as const).map((stderr) =>
    spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'ignore', stderr],
      encoding: 'utf8',
      timeout: 60_000,
      maxBuffer: 1 << 26,
    }),
  );
  closeSync(file);
  return [
    { status: piped?.status, signal: piped?.signal, text: piped?.stderr ?? '' },
    { status: filed?.status, signal: filed?.signal, text: readFileSync(path, 'utf8') },
  ];
}

const recordsOf = (text: string) =>
  text.split('\n').flatMap((line) => {
    const record = readLogLine(line) as (LogRecord & { readonly i?: number }) | undefined;
    return record === undefined ? [] : [record];
  });

describe('a process that ends badly', () => {
  it.each([
    ['throws', "throw new RangeError('out of luck');"],
    ['throws later', "setTimeout(() => { throw new RangeError('out of luck'); }, 1); setInterval(() => 0, 1000);"],
    ['leaves a rejection', "void Promise.reject(new RangeError('out of luck')); setInterval(() => 0, 1000);"],
  ])('and %s has written all that it logged, and why it ended', (_how, ending) => {
    for (const { status, text } of endedBy(ending)) {
      const records = recordsOf(text);
      expect(records.slice(0, -1).map(({ i }) => i)).toEqual(Array.from({ length: LINES }, (_, i) => i));
      expect(records.at(-1)).toMatchObject({
        level: 'fatal',
        role: 'init',
        message: 'this process ends because of an uncaught error: out of luck',
        error: { class: 'RangeError', message: 'out of luck', stack: expect.stringMatching(/RangeError.*\n\s+at /u) },
      });
      expect(status).toBe(1);
    }
  });

  it.each([
    ['is killed', "process.kill(process.pid, 'SIGKILL');", 'SIGKILL'],
    ['aborts', 'process.abort();', 'SIGABRT'],
  ])('and %s has written all that it logged', (_how, ending, by) => {
    for (const { signal, text } of endedBy(ending)) {
      expect(recordsOf(text).map(({ i }) => i)).toEqual(Array.from({ length: LINES }, (_, i) => i));
      expect(signal).toBe(by);
    }
  });
});

describe('a line', () => {
  const written = (write: (log: ReturnType<typeof openProcessLog>) => void): string => {
    let text = '';
    write(openProcessLog('gpu', (line) => (text += line)));
    return text;
  };

  it('says when, how bad, who and what, and the class of each error that led to it', () => {
    const cause = Object.assign(new Error('no room'), { name: 'StoreFull' });
    const failure = Object.assign(new Error('the step failed', { cause }), {
      name: 'ApplicationFailure',
      type: 'SandboxLost',
    });
    const record = readLogLine(written((log) => log.warn({ error: failure, runId: 'r' }, 'Activity failed')).trimEnd());
    expect(record).toMatchObject({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      role: 'gpu',
      pid: process.pid,
      message: 'Activity failed',
      runId: 'r',
      error: { class: 'SandboxLost', message: 'the step failed', cause: { class: 'StoreFull', message: 'no room' } },
    });
  });

  it('has an error that Temporal carries once, with the calls that led to it', () => {
    const thrown = Object.assign(new Error('gone, and more'), { stack: 'SandboxLost: gone\n    at one' });
    const failure = Object.assign(new Error('gone', { cause: thrown }), {
      name: 'ApplicationFailure',
      type: 'SandboxLost',
    });
    expect(readLogLine(written((log) => log.warn({ error: failure }, 'Activity failed')).trimEnd())?.error).toEqual({
      class: 'SandboxLost',
      message: 'gone, and more',
      stack: thrown.stack,
    });
  });

  it('is bounded, however long an error or its chain of causes is', () => {
    const endless = new Error('x'.repeat(1_000_000));
    endless.cause = endless;
    expect(written((log) => log.error({ error: endless })).length).toBeLessThan(200_000);
  });

  it('is one line of JSON without a character that steers', () => {
    const hostile = 'a\u001b[2J\u009b1m\u202eb\nc\u2028d';
    const text = written((log) => log.warn({ error: new Error(hostile) }, hostile));
    expect(text.indexOf('\n')).toBe(text.length - 1);
    expect(text.trimEnd()).toMatch(/^[\x20-\x7e]+$/);
    expect(readLogLine(text.trimEnd())).toMatchObject({ message: hostile, error: { message: hostile } });
  });
});
