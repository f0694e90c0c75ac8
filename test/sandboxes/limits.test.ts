/** Limits: a command that uses too much is ended; the sandbox, the journal and the host are not affected. */

import { beforeEach, describe, expect, it } from 'vitest';

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { onHost, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
let sandbox: Sandbox;
let made = 0;

beforeEach(async () => {
  made += 1;
  sandbox = await bench.provider.create(
    specOf(`limits/${made}`, { limits: { memoryMiB: 96, processes: 40, diskMiB: 32 } }),
  );
  return async () => await bench.provider.destroy(`limits/${made}`);
});

const marker = (): string => `longhaul-test-${process.pid}-${made}`;

describe('the time limit', () => {
  it('ends children of children, in sessions of their own, and double forks, and keeps the partial output', async () => {
    const sleeper = `exec -a ${marker()} sleep 1000`;
    const command = [
      `setsid bash -c '${sleeper}' &`,
      `(setsid bash -c '(${sleeper}) &' &)`,
      `python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execvp("sleep",["${marker()}","1000"])\n os._exit(0)' `,
      'cd /tmp; export FAR=away; trap "" TERM INT HUP; echo partial; sleep 1000',
    ].join('\n');
    const result = await sh(sandbox, command, { timeoutMs: 800 });
    expect(result).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: true, output: 'partial\n' });
    expect(onHost(marker())).toBe(0);
    expect((await sh(sandbox, 'pwd; ps -e --no-headers | wc -l')).output).toMatch(/^\/tmp\n[3-5]\n$/u);
  });

  it('ends a fresh call, and the shell is there for the next', async () => {
    expect(await sh(sandbox, 'sleep 1000', { timeoutMs: 200, fresh: true })).toMatchObject({ timedOut: true });
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n[shell restarted]\n');
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n');
  });

  it('keeps what was exported before the call', async () => {
    await sh(sandbox, 'export KEPT=1; cd /tmp');
    await sh(sandbox, 'sleep 1000', { timeoutMs: 200 });
    expect((await sh(sandbox, 'echo $KEPT; pwd')).output).toBe('1\n/tmp\n');
  });
});

describe('the limit on processor time', () => {
  const spin = 'import time\nwhile time.process_time() < 100: pass';
  const spent = { exitCode: null, signal: 'SIGXCPU', timedOut: false };

  it.each([
    ['one process', `python3 -c '${spin}'`],
    ['processes beside each other, each with less', `for i in 1 2 3 4; do python3 -c '${spin}' & done; wait`],
    ['processes one after the other, each with less', "while :; do python3 -c 'sum(range(3000000))'; done"],
    [
      'processes that hide in sessions and double forks',
      `(setsid python3 -c 'import os\nif os.fork() or os.fork(): os._exit(0)\n${spin}' &); sleep 1000`,
    ],
  ])('ends %s', async (_, command) => {
    const result = await sh(sandbox, `echo partial; ${command}`, { cpuMs: 600, timeoutMs: 120_000, fresh: true });
    expect(result).toMatchObject({ ...spent, output: 'partial\n' });
    expect(result.cpuMs).toBeGreaterThanOrEqual(600);
    expect((await sh(sandbox, 'ps -e --no-headers | wc -l', { alone: true })).output).toMatch(/^[2-6]\n$/u);
  });

  // Why: Linux does not add such a child's time to its parent, so no sum over parents includes it.
  const forgotten = (children: number, seconds: number) =>
    [
      'import os,signal,time',
      'signal.signal(signal.SIGCHLD, signal.SIG_IGN)',
      `for _ in range(${children}):`,
      '  if os.fork() == 0:',
      `    while time.process_time() < ${seconds}: pass`,
      '    os._exit(0)',
      '  try: os.wait()',
      '  except ChildProcessError: pass',
    ].join('\n');

  it.each([
    ['live for some time', 20, 0.4],
    // Without a control group, only the time of processes that were seen alive is counted.
    ...(bench.countsMemory ? ([['end at once', 400, 0.02]] as const) : []),
  ] as const)('ends a process that ignores the end of its children, which %s', async (_, children, seconds) => {
    const result = await sh(sandbox, `echo partial; python3 -c '${forgotten(children, seconds)}'`, {
      cpuMs: 600,
      timeoutMs: 120_000,
      fresh: true,
    });
    expect(result).toMatchObject({ ...spent, output: 'partial\n' });
    expect(result.cpuMs).toBeGreaterThanOrEqual(600);
  });

  it('counts the time of the call, not that of other load, an earlier call or a wait', async () => {
    await sh(sandbox, "python3 -c 'import time\nwhile time.process_time() < 1: pass'");
    const waited = await sh(sandbox, 'sleep 2', { cpuMs: 1000, fresh: true });
    expect(waited).toMatchObject({ exitCode: 0, signal: null });
    expect(waited.cpuMs).toBeLessThan(500);
    const taken = await sh(sandbox, "python3 -c 'import time\nwhile time.process_time() < 0.7: pass'", {
      cpuMs: 60_000,
      timeoutMs: 60_000,
      fresh: true,
    });
    expect(taken.exitCode).toBe(0);
    expect(taken.cpuMs).toBeGreaterThanOrEqual(690);
    expect((await sh(sandbox, 'true')).cpuMs).toBe(0);
  });
});

describe('processes', () => {
  it('stops a fork bomb at the limit, and the sandbox answers afterwards', async () => {
    const bombed = await sh(sandbox, 'bomb() { bomb | bomb & }; bomb; sleep 1000', { timeoutMs: 1500 });
    expect(bombed.timedOut).toBe(true);
    expect(await sh(sandbox, 'echo fine')).toMatchObject({ output: 'fine\n', exitCode: 0 });
  });

  it('counts the processes of a sandbox, and no more than it may have', async () => {
    const program = [
      'import os,time,signal',
      'children=[]',
      'try:',
      '  while len(children) < 100:',
      '    pid=os.fork()',
      '    if pid==0: time.sleep(60); os._exit(0)',
      '    children.append(pid)',
      'except OSError as error: print(error.errno, 20 < len(children) <= 40)',
      'for pid in children: os.kill(pid, signal.SIGKILL)',
    ].join('\n');
    expect((await sh(sandbox, `python3 -c '${program}'`)).output).toBe('11 True\n');
  });
});

describe('memory', () => {
  // Without control groups, memory is limited per process, and nothing is killed.
  if (!bench.countsMemory) {
    it('refuses an allocation that is too large', async () => {
      expect((await sh(sandbox, "python3 -c 'x = bytearray(400 << 20)'")).output).toContain('MemoryError');
    });
    return;
  }

  it('kills a process that uses too much, and reports that memory was the reason', async () => {
    const hog = await sh(sandbox, "python3 -c 'x = bytearray(400 << 20)'");
    expect(hog).toMatchObject({ exitCode: 137, outOfMemory: true, timedOut: false });
    expect(await sh(sandbox, 'echo fine')).toMatchObject({ output: 'fine\n', outOfMemory: false });
  });

  it('kills the shell itself if it uses too much', async () => {
    const grown = await sh(sandbox, 'x=$(head -c 90000000 /dev/zero | tr "\\0" a); y=$x$x$x');
    expect(grown).toMatchObject({ outOfMemory: true });
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n');
  });
});

describe('disk', () => {
  it('is full at its limit, which is an observation, in the workspace and in /tmp', async () => {
    for (const folder of ['/workspace', '/tmp', '/dev/shm']) {
      const filled = await sh(sandbox, `dd if=/dev/zero of=${folder}/fill bs=1M count=100 2>&1`);
      expect(filled).toMatchObject({ exitCode: 1, outOfMemory: false });
      expect(filled.output).toContain('No space left on device');
    }
    const { error } = await sandbox.write({ callId: 'full', path: 'more', content: Buffer.alloc(1 << 20), note: 'n' });
    expect(error).toBe('no space left');
    await sh(sandbox, 'rm /workspace/fill');
    expect(await sandbox.write({ callId: 'room', path: 'more', content: Buffer.alloc(1 << 20), note: 'n' })).toEqual({
      note: 'n',
    });
  });

  it('has no other writable place', async () => {
    const { output } = await sh(
      sandbox,
      'for d in / /etc /usr /run /dev /usr/local /proc/sys/kernel; do touch $d/x 2>/dev/null && echo $d; done; true',
    );
    expect(output).toBe('');
  });
});

describe('descriptors', () => {
  it('are limited, and core dumps are off', async () => {
    const { output } = await sh(
      sandbox,
      'ulimit -c; python3 -c \'f=[]\ntry:\n  while True: f.append(open("/dev/null"))\nexcept OSError as e: print(e.errno, len(f) < 1024)\'',
    );
    expect(output).toBe('0\n24 True\n');
  });
});
