/**
 * Hunts memory: no kind of memory that a program can use may exceed the sandbox's limit, outlive its process, or end
 * the supervisor.
 */

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { sh } from '../harness.ts';
import { bounds, groupOf, openBenches, peakOf, pidOf, python, SMALL, underAttack } from './host.ts';

const benches = await openBenches();

const HOGS: ReadonlyArray<readonly [string, string]> = [
  ['memory of its own', 'x = []\nwhile True: x.append(bytearray(1 << 20))'],
  ['files without a name', 'import os\nwhile True: os.write(os.memfd_create("x"), b"x" * (1 << 20))'],
  [
    'full pipes, in many processes',
    'import os\nfor _ in range(4): os.fork()\nps = []\nwhile True:\n  r, w = os.pipe()\n  os.set_blocking(w, False)\n  ps.append((r, w))\n  try:\n    while True: os.write(w, b"x" * 65536)\n  except BlockingIOError: pass',
  ],
];

const lowestFree = (pid: number): number => {
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  return Array.from({ length: open.size + 1 }, (_, fd) => fd).findIndex((fd) => !open.has(fd));
};

/** Sets a process's limit on open files. Returns the previous limit. */
function allowFiles(pid: number, files: number): number {
  const uid = Number(/^Uid:\s+(\d+)/mu.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  const before = Number(/^Max open files\s+(\d+)/mu.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1]);
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:`], { uid, gid: uid });
  return before;
}

/**
 * Sends files in memory through sockets which are themselves sent through sockets, up to the limit on memory. After the
 * end of the processes no process holds them. `last`: the program that runs at the end.
 */
const inFlight = (last: string): string => `import os, socket
try:
  for n in range(100_000): os.close(os.open(f"/workspace/{n:0250}", os.O_CREAT))
except OSError: pass
for place in range(3, 10):
  file = os.memfd_create("x")
  a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
  socket.send_fds(a, [b"x"], [file, a.fileno(), b.fileno()])
  for end in (a, b): os.set_inheritable(os.dup(end.detach()), True)
  os.dup2(file, 100 + place)
for place in range(3, 10): os.dup2(100 + place, place)
os.closerange(100, 120)
os.execv("/bin/sh", ["sh", "-c", "for f in 3 4 5 6 7 8 9; do head -c 16M /dev/zero >&$f; done 2>/dev/null; ${last}"])`;

describe.each(benches)('$name', (bench) => {
  it.each(HOGS)('%s', async (_, hog) => {
    await underAttack(bench, async (sandbox, id) => {
      const pid = await pidOf(bench, id);
      expect(await sh(sandbox, python(hog), { fresh: true })).toMatchObject({ outOfMemory: true });
      const { memory, memoryPeak } = await groupOf(bench, id);
      expect(memory).toBeLessThanOrEqual(bounds(SMALL, bench).memory);
      expect(memoryPeak).toBeLessThanOrEqual(memory);
      expect(await pidOf(bench, id)).toBe(pid);
    });
  });

  it('of System V, which outlives its process: little or none', async () => {
    await underAttack(bench, async (sandbox) => {
      const take =
        'import ctypes\nl = ctypes.CDLL(None)\nprint(sum(l.shmget(0, 1 << 20, 0o1777) >= 0 for _ in range(100)), sum(l.msgget(0, 0o1777) >= 0 for _ in range(1000)))';
      const [segments, queues] = (await sh(sandbox, python(take))).output.split(' ').map(Number);
      // As much as /dev/shm holds: one sixteenth of the disk.
      expect(segments).toBeLessThanOrEqual(SMALL.diskMiB / 16);
      expect(queues).toBeLessThanOrEqual(32);
    });
  });

  it('the policy cannot change the victim: its own processes stay the first for the out-of-memory killer', async () => {
    await underAttack(bench, async (sandbox) => {
      const { output } = await sh(
        sandbox,
        'cat /proc/self/oom_score_adj; for f in /proc/*/oom_score_adj /proc/self/oom_adj; do echo 0 > $f; done 2>/dev/null; cat /proc/$$/oom_score_adj',
      );
      expect(output).toBe('1000\n1000\n');
    });
  });

  it.each([
    ['its processes are dead', 'exit 0'],
    ['a process yet holds it', 'exec sleep 1000 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-'],
  ])('in sockets that are sent through sockets, where %s', async (_, last) => {
    await underAttack(bench, async (sandbox, id) => {
      const pid = await pidOf(bench, id);
      for (let round = 0; round < 3; round += 1) {
        await sh(sandbox, python(inFlight(last), 'setsid'), { fresh: true, timeoutMs: 3000 });
        expect((await sandbox.read('/workspace', 4 << 20)).kind).toBe('directory');
        await sh(sandbox, `(setsid python3 /tmp/attack.py &) >/dev/null 2>&1; sleep 1.5`, { timeoutMs: 3000 });
        expect((await sandbox.read('/workspace', 4 << 20)).kind).toBe('directory');
      }
      expect(await pidOf(bench, id)).toBe(pid);
    });
  });

  it('a call for which the kernel has no pipe is answered, and later calls run', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const pid = await pidOf(bench, id);
      await sh(sandbox, 'export KEPT=kept');
      const before = allowFiles(pid, lowestFree(pid));
      expect(await sh(sandbox, 'true', { fresh: true })).toMatchObject({ exitCode: null, timedOut: true });
      expect(await sh(sandbox, 'true')).toMatchObject({ exitCode: null, timedOut: true });
      allowFiles(pid, before);
      expect(await sh(sandbox, 'echo $KEPT')).toMatchObject({ exitCode: 0, output: 'kept\n' });
      expect(await pidOf(bench, id)).toBe(pid);
    });
  });

  it('the supervisor keeps only the requested part of endless output', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const flooded = await sh(
        sandbox,
        'yes | head -c 100000000; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo end',
        { outputLimit: 10_000 },
      );
      expect(flooded.output.length).toBeLessThan(10_100);
      expect(flooded.output.endsWith('x\nend\n')).toBe(true);
      expect(flooded.droppedBytes).toBe(103_000_005 - 10_000);
      expect(peakOf(await pidOf(bench, id))).toBeLessThan(16 << 20);
    });
  });
});
