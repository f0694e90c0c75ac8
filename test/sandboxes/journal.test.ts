/** The journal: a worker may die at any moment of a call, and no call is lost or runs twice. */

import { spawn } from 'node:child_process';
import { join } from 'node:path';

import { beforeAll, describe, expect, it } from 'vitest';

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { SupervisorClient } from '../../sandboxes/supervisor/client.ts';
import { dialSocket } from '../../sandboxes/supervisor/connection.ts';
import { callOf, eventually, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('journal'));
});

const exists = async (path: string): Promise<true | undefined> =>
  (await sandbox.read(path, 100)).kind === 'missing' ? undefined : true;

/** Requests the call from a separate process, which is killed while the call runs. That must not affect the sandbox. */
async function callFromAKilledWorker(callId: string, command: string, started: string): Promise<void> {
  const program = `
    ${bench.program}
    const [callId, command] = process.argv.slice(1);
    const sandbox = await provider.connect('journal');
    await sandbox.exec({ callId, command, timeoutMs: 20000, outputLimit: 1000 });`;
  const args = ['--input-type=module', '-e', program, callId, command];
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const dead = new Promise((resolve) => worker.once('exit', (_, signal) => resolve(signal)));
  await eventually('the call starts', async () => await exists(started));
  worker.kill('SIGKILL');
  expect(await dead).toBe('SIGKILL');
}

describe('a call whose worker is killed', () => {
  const command =
    'echo ran >> ran; touch started; until [ -e go ]; do sleep 0.02; done; echo out; cd /tmp; exit_code() { return 4; }; exit_code';

  it('goes on, is attached to by another worker, and ran once', async () => {
    await callFromAKilledWorker('killed', command, 'started');
    const attached = sandbox.exec(callOf(command, { callId: 'killed' }));
    const second = (await bench.provider.connect('journal')).exec(callOf(command, { callId: 'killed' }));
    await sandbox.write({ callId: 'go', path: 'go', content: new Uint8Array(), note: '' });
    const result = await attached;
    expect(result).toMatchObject({ output: 'out\n', exitCode: 4 });
    expect(await second).toEqual(result);
    expect((await sh(sandbox, 'pwd; cat /workspace/ran')).output).toBe('/tmp\nran\n');
  });

  it('finishes without a client, and is read from the journal later', async () => {
    const alone = 'cd /workspace; touch waits; until [ -e go2 ]; do sleep 0.02; done; echo x >> alone';
    await callFromAKilledWorker('alone', alone, 'waits');
    await sandbox.write({ callId: 'go2', path: 'go2', content: new Uint8Array(), note: '' });
    await eventually('the call ends', async () => await exists('alone'));
    const later = await bench.provider.connect('journal');
    expect(await later.exec(callOf('echo never', { callId: 'alone' }))).toMatchObject({ output: '', exitCode: 0 });
    expect((await sh(later, 'cat alone')).output).toBe('x\n');
    later.close();
  });
});

describe('a worker that stood still while another one took over', () => {
  it('changes nothing when it goes on: it gets the results that there are', async () => {
    const wait = 'echo ran >> still; touch stands; until [ -e go3 ]; do sleep 0.02; done; cat still';
    const program = `
      ${bench.program}
      const sandbox = await provider.connect('journal');
      const result = await sandbox.exec({ callId: 'still', command: ${JSON.stringify(wait)}, timeoutMs: 20000, outputLimit: 1000 });
      const written = await sandbox.write({ callId: 'still/w', path: 'still', content: Buffer.from('late'), note: 'late' });
      const next = await sandbox.exec({ callId: 'still/n', command: 'echo late >> still; echo late', timeoutMs: 20000, outputLimit: 1000 });
      console.log(JSON.stringify([result.output, written.note, next.output]));
      process.exit(0);`;
    const worker = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    worker.stdout.on('data', (text: Buffer) => (said += text.toString()));
    const over = new Promise((resolve) => worker.once('exit', resolve));
    await eventually('the call starts', async () => await exists('stands'));
    worker.kill('SIGSTOP');
    const newer = await bench.provider.connect('journal');
    const attached = newer.exec(callOf(wait, { callId: 'still' }));
    await sandbox.write({ callId: 'go3', path: 'go3', content: new Uint8Array(), note: '' });
    expect((await attached).output).toBe('ran\n');
    await newer.write({ callId: 'still/w', path: 'still', content: Buffer.from('new\n'), note: 'new' });
    await newer.exec(callOf('echo newer >> still; echo newer', { callId: 'still/n' }));
    worker.kill('SIGCONT');
    expect(await over).toBe(0);
    expect(JSON.parse(said)).toEqual(['ran\n', 'new', 'newer\n']);
    expect((await sh(newer, 'cat /workspace/still')).output).toBe('new\nnewer\n');
    newer.close();
  });
});

describe('records', () => {
  it('returns the same result for the same id, also of a call that ended the shell or ran out of time', async () => {
    const ended = callOf('echo a; exit 6');
    expect(await sandbox.exec(ended)).toEqual(await sandbox.exec(ended));
    const late = callOf('echo partial; sleep 60', { timeoutMs: 200 });
    const first = await sandbox.exec(late);
    expect(first).toMatchObject({ timedOut: true, output: 'partial\n' });
    expect(await sandbox.exec(late)).toEqual(first);
  });

  it('runs concurrent calls one after the other', async () => {
    const results = await Promise.all(
      [1, 2, 3, 4, 5].map(async (n) => await sh(sandbox, `echo in ${n}; sleep 0.02; echo out ${n}`)),
    );
    expect(results.map(({ output }) => output)).toEqual([1, 2, 3, 4, 5].map((n) => `in ${n}\nout ${n}\n`));
  });

  it('writes once under an id, and returns the note of the first time', async () => {
    const write = { callId: 'w1', path: 'notes/a.txt', content: Buffer.from('one'), note: 'Edited a.' };
    expect(await sandbox.write(write)).toEqual({ note: 'Edited a.' });
    await sh(sandbox, 'cd /workspace; echo changed > notes/a.txt');
    expect(await sandbox.write({ ...write, content: Buffer.from('two'), note: 'other' })).toEqual({
      note: 'Edited a.',
    });
    expect((await sh(sandbox, 'cat notes/a.txt')).output).toBe('changed\n');
    expect(await sandbox.written('w1')).toEqual({ note: 'Edited a.' });
    expect(await sandbox.written('never')).toBeUndefined();
  });

  it('refuses an id of another kind of call', async () => {
    await expect(sandbox.exec(callOf('true', { callId: 'w1' }))).rejects.toThrow('another kind of call');
  });

  it('keeps thousands of records', async () => {
    const ids = Array.from({ length: 2000 }, (_, n) => `many/${n}`);
    await Promise.all(
      ids.map(
        async (callId) => await sandbox.write({ callId, path: 'many', content: Buffer.from(callId), note: callId }),
      ),
    );
    expect((await sandbox.written('many/0'))?.note).toBe('many/0');
    expect((await sandbox.written('many/1999'))?.note).toBe('many/1999');
  });
});

describe('clients', () => {
  it('that read nothing, or send garbage, do not keep others waiting', async () => {
    const { connect } = await import('node:net');
    const { folderOf } = await import('../../sandboxes/supervised/state.ts');
    const path = join(folderOf(bench.stateDir, 'journal'), bench.socket);
    await sh(sandbox, 'head -c 5000000 /dev/zero > big');
    const slow = connect(path);
    slow.pause();
    // Many READs of `big`, by a client that reads no answer.
    const frame = Buffer.from('1200000001000000040300000062696700e1f50500000000', 'hex');
    frame.writeUInt32LE(frame.length - 4, 0);
    for (let n = 0; n < 8; n += 1) slow.write(frame);
    const garbage = connect(path);
    const closed = new Promise((resolve) => garbage.once('close', resolve));
    garbage.on('error', () => undefined);
    garbage.write(Buffer.alloc(64, 0xff));
    garbage.resume();
    await closed;
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n');
    slow.destroy();
  });

  it('open their connection again when it broke', async () => {
    const { folderOf } = await import('../../sandboxes/supervised/state.ts');
    const client = new SupervisorClient('journal', dialSocket(join(folderOf(bench.stateDir, 'journal'), bench.socket)));
    expect(await client.hello()).toBe(true);
    const running = client.exec(callOf('touch reopen; sleep 0.3; echo once >> reopen', { callId: 'reopen' }));
    await eventually('the call starts', async () => await exists('reopen'));
    // The same id on the same handle, after its connection is gone.
    const inner = client as unknown as { connection: Promise<{ close(): void }> };
    (await inner.connection).close();
    expect((await running).exitCode).toBe(0);
    expect((await sh(sandbox, 'cat reopen')).output).toBe('once\n');
    client.close();
  });
});
