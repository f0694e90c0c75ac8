/** Isolation: attacks of a policy from inside, and the view of the host from outside. */

import { readFileSync, readdirSync } from 'node:fs';

import { beforeAll, describe, expect, it } from 'vitest';

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { eventually, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
const isRoot = process.getuid?.() === 0;
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('isolation'));
});

/** Host processes with `text` in their command line: pid and uid. */
function onHost(text: string): Array<{ pid: number; uid: number }> {
  return readdirSync('/proc').flatMap((name) => {
    try {
      if (!/^\d+$/u.test(name) || !readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(text)) return [];
      const uid = /^Uid:\t(\d+)/mu.exec(readFileSync(`/proc/${name}/status`, 'latin1'))?.[1];
      return [{ pid: Number(name), uid: Number(uid) }];
    } catch {
      return [];
    }
  });
}

describe('the host', () => {
  // In containers, users are not remapped: the uid inside is the uid outside.
  if (bench.kind === 'bubblewrap')
    it('runs each sandbox as a user of its own, never as root', async () => {
      const other = await bench.provider.create(specOf('isolation-other'));
      const marks = ['one', 'two'].map((n) => `longhaul-uid-${process.pid}-${n}`);
      await sh(sandbox, `(exec -a ${marks[0]} sleep 100) & disown`);
      await sh(other, `(exec -a ${marks[1]} sleep 100) & disown`);
      const seen = (mark: string): number[] | undefined => {
        // Before it becomes `sleep`, its parent may have the same command line.
        const uids = onHost(mark).map(({ uid }) => uid);
        return uids.length === 1 ? uids : undefined;
      };
      const uids = await Promise.all(marks.map(async (mark) => await eventually(`${mark} runs`, () => seen(mark))));
      if (isRoot) {
        expect(uids.flat().every((uid) => uid >= 100_000)).toBe(true);
        expect(uids[0]).not.toEqual(uids[1]);
      } else expect(uids.flat()).toEqual([process.getuid?.(), process.getuid?.()]);
      await bench.provider.destroy('isolation-other');
    });

  it('is not visible: no processes, no home folder, no files of the caller', async () => {
    const { output } = await sh(
      sandbox,
      'ls / | tr "\\n" " "; ls /root /home 2>&1 | sort -u; ps -e --no-headers | wc -l',
    );
    if (bench.kind === 'bubblewrap') expect(output).toMatch(/^bin dev etc lib.* proc run sbin tmp usr workspace /u);
    if (bench.kind === 'bubblewrap') expect(output).not.toContain('home ');
    expect(Number(output.trim().split('\n').at(-1))).toBeLessThan(8);
    expect(
      (await sh(sandbox, 'cat /etc/shadow /etc/machine-id 2>&1; true')).output.match(/No such file/gu),
    ).toHaveLength(2);
  });

  it('is not reached by the network: no interface but loopback, no route, no name', async () => {
    const { output } = await sh(
      sandbox,
      'cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2',
    );
    expect(output.trim()).toBe('lo');
    const connect =
      "import socket\nfor f,a in ((socket.AF_INET,('1.1.1.1',53)),(socket.AF_INET,('169.254.169.254',80)),(socket.AF_INET6,('2606:4700::1',53))):\n  try: socket.socket(f).connect(a); print('reached',a)\n  except OSError as e: print('refused')";
    expect((await sh(sandbox, `python3 -c "${connect}"`)).output).toBe('refused\nrefused\nrefused\n');
    expect((await sh(sandbox, 'getent hosts example.com')).exitCode).not.toBe(0);
  });
});

describe('rights', () => {
  it('are none: no capability, no new privileges, a filter of system calls', async () => {
    const { output } = await sh(
      sandbox,
      'grep -E "^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):" /proc/self/status | cut -f2 | sort -u | tr "\\n" " "',
    );
    expect(output).toBe('0000000000000000 1 2 ');
  });

  it.each([
    ['a nested user namespace', 'unshare -Ur true'],
    ['another mount', 'mount -t tmpfs x /tmp'],
    [
      'a trace of pid 1',
      `python3 -c 'import ctypes,sys; sys.exit(1 if ctypes.CDLL(None).ptrace(16,1,0,0) < 0 else 0)'`,
    ],
    ['limits for pid 1', 'prlimit --pid 1 --nofile=4'],
    ['another priority for pid 1', 'renice -n 19 -p 1'],
    ['a look at the memory of pid 1', 'cat /proc/1/maps /proc/1/environ'],
    ['the descriptors of pid 1', 'ls /proc/1/fd/'],
    ['a raw socket', "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'"],
    ['the kernel log', 'dmesg'],
    ['a device', 'mknod /tmp/d b 8 0'],
    ['another uid', "python3 -c 'import os; os.setuid(0)'"],
    ['the system request key', 'echo b > /proc/sysrq-trigger'],
    ['the core pattern', 'echo x > /proc/sys/kernel/core_pattern'],
    [
      'a nested namespace by clone',
      `python3 -c 'import ctypes,sys; r=ctypes.CDLL(None).syscall(56,0x10000000|17,0,0,0,0); sys.exit(1 if r < 0 else 0)'`,
    ],
  ])('do not include %s', async (_, command) => {
    const refused = await sh(sandbox, command);
    expect(refused.exitCode).not.toBe(0);
    expect(refused.signal).toBeNull();
  });
});

describe('two sandboxes', () => {
  it('share nothing that is writable or visible', async () => {
    const other = await bench.provider.create(specOf('isolation-b'));
    await sh(sandbox, 'echo secret > /workspace/s; echo secret > /tmp/s; echo secret > /dev/shm/s; sleep 77 & disown');
    const { output } = await sh(other, 'cat /workspace/s /tmp/s /dev/shm/s 2>/dev/null; ps -ef | grep -c "[s]leep 77"');
    expect(output).toBe('0\n');
    const listen = "import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('\\0name'); s.listen(); time.sleep(3)";
    await sh(sandbox, `python3 -c "${listen}" & sleep 0.2`);
    const reach = "import socket; socket.socket(socket.AF_UNIX).connect('\\0name')";
    expect((await sh(sandbox, `python3 -c "${reach}"`)).exitCode).toBe(0);
    expect((await sh(other, `python3 -c "${reach}"`)).exitCode).toBe(1);
    await bench.provider.destroy('isolation-b');
  });
});
