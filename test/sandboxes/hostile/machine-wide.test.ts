/**
 * Hunts resources that the kernel counts for the whole machine or per user: one sandbox uses all that it gets, and
 * another one and the host must still have theirs at the same time.
 */

import { readdirSync, readFileSync } from 'node:fs';

import { afterAll, describe, expect, it } from 'vitest';

import { MOST_PSEUDO_TERMINALS, SOCKET_BYTES } from '../../../sandboxes/supervised/spec.ts';
import { eventually, sh, specOf } from '../harness.ts';
import { bounds, openBenches, pidOf, python, SMALL, socketMemoryOf } from './host.ts';

const benches = await openBenches();
let made = 0;

/** Takes as much as it can in some processes, prints how much it got, and keeps it. */
const hoard = (take: string): string => `import ctypes, errno, fcntl, os, signal, socket, time
libc = ctypes.CDLL(None, use_errno=True)
held = []
def take():
${take
  .split('\n')
  .map((line) => `  ${line}`)
  .join('\n')}
try:
  while True: held.append(take())
except OSError as error: print(len(held), errno.errorcode[error.errno], flush=True)
os.close(1); os.close(2)
time.sleep(1000)`;

const inBackground = (program: string, times = 1): string =>
  `${python(program, 'true ||')}; for n in $(seq ${times}); do (setsid python3 /tmp/attack.py > /tmp/said$n 2>&1 &); done; until [ "$(cat /tmp/said* 2>/dev/null | wc -l)" -ge ${times} ]; do sleep 0.05; done; cat /tmp/said*`;

/** Finds a process on the host by a part of its command line. */
function processWith(mark: string): number | undefined {
  return readdirSync('/proc')
    .map(Number)
    .find((pid) => {
      try {
        return pid > 0 && pid !== process.pid && readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(mark);
      } catch {
        return false;
      }
    });
}

describe.each(benches)('$name', (bench) => {
  const pair = async () => {
    made += 2;
    const ids = [`wide/${made}`, `wide/${made + 1}`] as const;
    const [attacker, other] = await Promise.all(ids.map((id) => bench.provider.create(specOf(id, { limits: SMALL }))));
    if (!attacker || !other) throw new Error('there are two');
    return { attacker, other, id: ids[0] };
  };
  afterAll(async () => void (await bench.provider.sweep(() => false)));

  it('each sandbox has its own user, on the host too, which is not a user of the host', async () => {
    const { attacker, other } = await pair();
    const uids = await Promise.all(
      [attacker, other].map(async (sandbox, n) => {
        const mark = `user-${process.pid}-${bench.name.replaceAll(' ', '-')}-${n}`;
        await sh(sandbox, `(exec -a ${mark} sleep 1000) &`);
        const pid = await eventually('it runs', () => processWith(mark));
        return Number(/^Uid:\s+(\d+)/mu.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
      }),
    );
    expect(new Set(uids).size).toBe(2);
    const known = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => Number(line.split(':')[2]));
    expect(uids.filter((uid) => known.includes(uid) || uid < 10_000)).toEqual([]);
    expect((await sh(attacker, 'whoami; id -gn; echo ~; touch /workspace/x; stat -c %U:%G /workspace/x')).output).toBe(
      'agent\nagent\n/tmp/home\nagent:agent\n',
    );
  });

  it('instances of inotify', async () => {
    const { attacker, other } = await pair();
    const take = 'r = libc.inotify_init1(0)\nif r < 0: raise OSError(ctypes.get_errno(), "")\nreturn r';
    expect((await sh(attacker, inBackground(hoard(take), 2))).output).toMatch(/EMFILE/u);
    expect(
      (
        await sh(
          other,
          python(
            hoard(take).replace('while True', 'for _ in range(20)').replace('time.sleep(1000)', 'os._exit(len(held))'),
          ),
        )
      ).exitCode,
    ).toBe(20);
  });

  it('pages of pipes', async () => {
    const { attacker, other } = await pair();
    const size = 'import fcntl, os\nr, w = os.pipe()\nprint(fcntl.fcntl(w, 1032))';
    const take =
      'if len(held) == 450: raise OSError(errno.ENFILE, "")\nr, w = os.pipe()\ntry: fcntl.fcntl(w, 1031, 1 << 20)\nexcept PermissionError: pass\nreturn r, w';
    await sh(attacker, inBackground(hoard(take), 3));
    expect(Number((await sh(attacker, python(size))).output)).toBeLessThan(65_536);
    expect((await sh(other, python(size))).output).toBe('65536\n');
  });

  it('pending signals, and timers, each of which reserves one', async () => {
    const { attacker, other } = await pair();
    const take =
      't = ctypes.c_void_p()\nif libc.timer_create(1, None, ctypes.byref(t)) < 0: raise OSError(ctypes.get_errno(), "")\nreturn t';
    expect((await sh(attacker, inBackground(hoard(take), 2))).output).toMatch(
      /^(\d{1,3}|10[01]\d|102[0-4]) EAGAIN\n(\d{1,3}|10[01]\d|102[0-4]) EAGAIN\n$/u,
    );
    const few = python(
      hoard(take).replace('while True', 'for _ in range(100)').replace('time.sleep(1000)', 'os._exit(len(held))'),
    );
    expect((await sh(other, few)).exitCode).toBe(100);
  });

  it('pseudo-terminals', async () => {
    const { attacker, other } = await pair();
    const took = `${MOST_PSEUDO_TERMINALS} ENOSPC\n`;
    const take = 'return os.openpty()';
    expect((await sh(attacker, inBackground(hoard(take)))).output).toBe(took);
    expect((await sh(other, inBackground(hoard(take)))).output).toBe(took);
    expect((await sh(other, "pkill -f attack.py; sleep 0.2; script -qec 'tty' /dev/null")).output).toMatch(
      /^\/dev\/pts\/\d+\r\n$/u,
    );
  });

  it('requests of asynchronous input and output', async () => {
    const taken = () => Number(readFileSync('/proc/sys/fs/aio-nr', 'utf8'));
    const before = taken();
    const { attacker } = await pair();
    const take =
      'c = ctypes.c_ulong()\nif libc.syscall(206 if os.uname().machine == "x86_64" else 0, 4096, ctypes.byref(c)) < 0: raise OSError(ctypes.get_errno(), "")\nreturn c';
    expect((await sh(attacker, inBackground(hoard(take)))).output).toBe('0 ENOSYS\n');
    // Other processes of the machine may use a few.
    expect(taken() - before).toBeLessThan(4096);
  });

  // Docker does not set this limit for cgroup version 1.
  if (bench.kind === 'bubblewrap')
    it('memory of sockets, for which the whole machine has one limit', async () => {
      const { attacker, id } = await pair();
      const take = [
        's = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1)',
        'a = socket.create_connection(s.getsockname()); b = s.accept()[0]; s.close()',
        'for end in (a, b):',
        '  end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); end.setblocking(False)',
        '  try:',
        '    while True: end.send(b"x" * 65536)',
        '  except BlockingIOError: pass',
        'if len(held) == 60: raise OSError(errno.ENFILE, "")',
        'return a, b',
      ];
      await sh(attacker, inBackground(hoard(take.join('\n'))), { timeoutMs: 60_000 });
      // The kernel gives each socket a little memory, beyond the limit.
      const { limit, peak } = socketMemoryOf(await pidOf(bench, id));
      expect(limit).toBeLessThanOrEqual(Math.max(SOCKET_BYTES, bounds(SMALL, bench).memory));
      expect(peak).toBeGreaterThan(0);
      expect(peak).toBeLessThanOrEqual(2 * limit);
    });
});
