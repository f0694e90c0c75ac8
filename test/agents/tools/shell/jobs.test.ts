/** Hunts jobs that are lost, read twice, fed to the wrong program, or still there after they were stopped. */

import { beforeEach, describe, expect, it } from 'vitest';

import { toolRegistry } from '../../../../agents/tools/registry.ts';
import { runToolCall } from '../../../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from '../../../sandboxes/harness.ts';

const bench = await openBench();
const all = [...toolRegistry.keys()];
let sandbox: Sandbox;
let calls = 0;
let made = 0;

beforeEach(async () => {
  made += 1;
  sandbox = await bench.provider.create(specOf(`jobs-${made}`));
});

const use = async (action: string, args: Record<string, unknown> = {}): Promise<string> => {
  calls += 1;
  const call = { name: 'jobs', arguments: { action, ...args } };
  return (await runToolCall(call, all, sandbox, { callId: `jobs-${calls}`, timeoutMs: 60_000 })).content;
};
const start = (command: string) => use('start', { command });
/** Reads when the job has ended, however long that takes here. */
const end = (job: number) => use('read', { job, wait: 40 });

describe('a job', () => {
  it('runs in the shell’s directory with its exports, beside its calls, and is read to its end', async () => {
    await sh(sandbox, 'mkdir -p deep; cd deep; export NAME=me');
    expect(await start('pwd; echo "I am $NAME"; until [ -e go ]; do sleep 0.05; done; exit 3')).toBe(
      'Job 1 runs. Use read to see its output.',
    );
    expect((await sh(sandbox, 'pwd')).output).toBe('/workspace/deep\n');
    expect(await use('read', { job: 1, wait: 0 })).toMatch(/\[job 1 runs\]$/);
    await sh(sandbox, 'touch go');
    expect(await end(1)).toMatch(/\[job 1 has ended with exit code 3\]$/);
    expect(await end(1)).toBe('[job 1 has ended with exit code 3]');
  });

  it('is read once: each read begins where the last one ended', async () => {
    await start('echo one; read x; echo "two $x"');
    let seen = '';
    while (!seen.includes('one')) seen += await use('read', { job: 1, wait: 0 });
    expect(await use('send', { job: 1, input: "it's $HOME\n" })).toBe('Sent to job 1.');
    expect(await end(1)).toBe("two it's $HOME\n[job 1 has ended with exit code 0]");
  });

  it('that does not read is sent what fits, and then nothing, without waiting for it', async () => {
    await start('until [ -e /tmp/stop ]; do sleep 0.1; done');
    let sent = 0;
    let answer = '';
    while (sent < 40 && !answer.startsWith('[')) {
      answer = await use('send', { job: 1, input: 'x'.repeat(4096) });
      sent += 1;
    }
    expect(sent).toBeGreaterThan(1);
    expect(answer).toBe('[job 1 does not read its input: nothing was sent]');
    await sh(sandbox, 'touch /tmp/stop');
    await end(1);
    expect(await use('send', { job: 1, input: 'x' })).toBe('[job 1 has ended: nothing was sent]');
    expect(await use('send', { job: 1, input: 'a\0b' })).toContain('has a null character');
  });

  it('that filled the disk can be stopped', async () => {
    await start('yes; touch /tmp/full; sleep 300');
    await sh(sandbox, 'until [ -e /tmp/full ]; do sleep 0.05; done');
    expect(await use('stop', { job: 1 })).toBe('Job 1 was stopped.');
    expect(await use('read', { job: 1 })).toMatch(/\[job 1 has ended with exit code 137\]$/);
  });

  it('answers questions on its standard input, and keeps several apart', async () => {
    await start('read a; echo "first $a"');
    await start('read a; echo "second $a"');
    await use('send', { job: 2, input: 'B\n' });
    await use('send', { job: 1, input: 'A\n' });
    expect([await end(1), await end(2)]).toEqual([
      'first A\n[job 1 has ended with exit code 0]',
      'second B\n[job 2 has ended with exit code 0]',
    ]);
  });

  it('can be interrupted, and goes on if it wants to', async () => {
    await start(
      `python3 -u -c '
import time
print("ready")
try:
    time.sleep(1000)
except KeyboardInterrupt:
    print("interrupted")
time.sleep(0)
'`,
    );
    let seen = '';
    while (!seen.includes('ready')) seen += await use('read', { job: 1, wait: 0 });
    expect(await use('interrupt', { job: 1 })).toMatch(/^Job 1 was interrupted/);
    expect(await end(1)).toBe('interrupted\n[job 1 has ended with exit code 0]');
    expect(await use('interrupt', { job: 1 })).toBe('[job 1 has ended already]');
  });

  it('that is stopped ends with all of its processes', async () => {
    await start('trap "" INT TERM; sleep 1000 & sleep 1000');
    expect(await use('stop', { job: 1 })).toBe('Job 1 was stopped.');
    expect(await end(1)).toBe('[job 1 has ended with exit code 137]');
    const { output } = await sh(sandbox, 'until [ "$(pgrep -c sleep)" = 0 ]; do sleep 0.05; done; echo none', {
      fresh: true,
    });
    expect(output).toBe('none\n');
  });

  it('that prints much is read by its end', async () => {
    await start('seq 200000');
    const text = await end(1);
    expect(text.length).toBeLessThan(8200);
    expect(text).toMatch(/bytes are left out\][^]*\n200000\n\[job 1 has ended with exit code 0\]$/u);
  });

  it('does not hold up the shell, nor what a command after it prints', async () => {
    await start('sleep 1000');
    expect((await sh(sandbox, 'echo a')).output).toBe('a\n');
  });
});

it.each([
  ['start', {}, 'Error: command is missing: give the command to start.'],
  ['read', {}, 'Error: job is missing: give the number of a job.'],
  ['read', { job: 7 }, 'Error: job 7: there is no such job.'],
  ['send', { job: 1 }, 'Error: input is missing: give the text to send, with its line end.'],
  ['read', { job: 1, wait: -1 }, 'Error: wait -1: must not be negative.'],
])('%s %j is refused', async (action, args, message) => {
  await start('sleep 1000');
  expect(await use(action, args)).toBe(message);
});

it('starts no more than 32', async () => {
  await sh(sandbox, 'mkdir -p /tmp/.jobs; cd /tmp/.jobs; mkdir $(seq 32)');
  expect(await start('true')).toMatch(/32 is the most/);
});
