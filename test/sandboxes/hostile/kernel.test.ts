/**
 * Hunts escapes through the kernel: system calls, sockets and kernel files that a policy does not need. It does not
 * repeat `isolation.test.ts`.
 */

import { describe, expect, it } from 'vitest';

import { sh } from '../harness.ts';
import { openBenches, python, underAttack } from './host.ts';

const benches = await openBenches();

const PRELUDE =
  'import ctypes, errno, os, platform, socket\nx86 = platform.machine() == "x86_64"\nlibc = ctypes.CDLL(None, use_errno=True)\ndef call(*a):\n  r = libc.syscall(*a)\n  return "done" if r >= 0 else errno.errorcode[ctypes.get_errno()]\n';

/** Numbers of system calls on x86-64 and arm64. */
const CALLS: ReadonlyArray<readonly [string, number, number, string]> = [
  ['ptrace', 101, 117, '0, 0, 0, 0'],
  ['process_vm_readv', 310, 270, '1, 0, 0, 0, 0, 0'],
  ['process_vm_writev', 311, 271, '1, 0, 0, 0, 0, 0'],
  ['mount', 165, 40, '0, 0, 0, 0, 0'],
  ['umount2', 166, 39, 'b"/tmp", 2'],
  ['pivot_root', 155, 41, 'b"/tmp", b"/tmp"'],
  ['unshare', 272, 97, '0x10000000'],
  ['setns', 308, 268, '0, 0'],
  ['open_tree', 428, 428, '-100, b"/", 1'],
  ['fsopen', 430, 430, 'b"tmpfs", 0'],
  ['move_mount', 429, 429, '-1, 0, -1, 0, 0'],
  ['open_by_handle_at', 304, 265, '-100, 0, 0'],
  ['bpf', 321, 280, '0, 0, 0'],
  ['perf_event_open', 298, 241, '0, 0, -1, -1, 0'],
  ['userfaultfd', 323, 282, '0'],
  ['io_uring_setup', 425, 425, '1, 0'],
  ['io_setup', 206, 0, '1 << 16, ctypes.byref(ctypes.c_ulong())'],
  ['keyctl', 250, 219, '0, 0, 0'],
  ['add_key', 248, 217, 'b"user", b"x", b"x", 1, 0'],
  ['init_module', 175, 105, '0, 0, b""'],
  ['kexec_load', 246, 104, '0, 0, 0, 0'],
  ['reboot', 169, 142, '0xfee1dead, 672274793, 0, 0'],
  ['swapon', 167, 224, 'b"/tmp/x", 0'],
  ['acct', 163, 89, 'b"/tmp/x"'],
  ['pidfd_getfd', 438, 438, '0, 0, 0'],
  ['clone3', 435, 435, '0, 0'],
];

describe.each(benches)('$name', (bench) => {
  it('system calls that programs under test do not need are refused, by number, before the kernel looks at them', async () => {
    await underAttack(bench, async (sandbox) => {
      const tries = CALLS.map(([name, x86, arm, args]) => `print("${name}", call(${x86} if x86 else ${arm}, ${args}))`);
      const { output } = await sh(
        sandbox,
        python(`${PRELUDE}${tries.join('\n')}\nprint("x32", call(0x40000000 + 39)) if x86 else None`),
      );
      expect(
        output
          .trim()
          .split('\n')
          .filter((line) => !/ (EPERM|ENOSYS)$/u.test(line)),
      ).toEqual([]);
      expect(output.split('\n').length).toBeGreaterThan(CALLS.length);
    });
  });

  it("sockets are of the four families that tests use: none to the machine's own host, to devices, or to ciphers", async () => {
    await underAttack(bench, async (sandbox) => {
      const families = `made = []\nfor f in range(50):\n  for t in (1, 2, 3, 5):\n    try:\n      socket.socket(f, t)\n      made.append(f)\n    except OSError: pass\nprint(sorted(set(made)))`;
      expect((await sh(sandbox, python(PRELUDE + families))).output).toBe('[1, 2, 10, 16]\n');
    });
  });

  it('no address answers: metadata services, link-local and private addresses, names, and the host itself', async () => {
    await underAttack(bench, async (sandbox) => {
      const places = [
        ['169.254.169.254', 80],
        ['169.254.170.2', 80],
        ['100.100.100.200', 80],
        ['10.0.0.1', 80],
        ['172.17.0.1', 2375],
        ['192.168.0.1', 80],
        ['127.0.0.1', 7233],
        ['127.0.0.1', 8233],
        ['8.8.8.8', 53],
      ];
      const v6 = ['fd00:ec2::254', 'fe80::1', '::1', '2001:4860:4860::8888'];
      const reach = [
        `for a in ${JSON.stringify(places)}:`,
        '  for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):',
        '    s = socket.socket(socket.AF_INET, kind); s.settimeout(1)',
        '    try:',
        '      s.connect(tuple(a)); s.send(b"x"); s.recv(1); print("reached", a)',
        '    except OSError: pass',
        `for a in ${JSON.stringify(v6)}:`,
        '  try: socket.create_connection((a, 80), 1); print("reached", a)',
        '  except OSError: pass',
        'for name in ("metadata.google.internal", "host.docker.internal", "example.com"):',
        '  try: socket.getaddrinfo(name, 80); print("resolved", name)',
        '  except OSError: pass',
        'print(os.popen("cat /proc/net/route /proc/net/ipv6_route | grep -v lo$ | tail -n +2 | wc -l").read().strip())',
      ];
      expect((await sh(sandbox, python(PRELUDE + reach.join('\n')))).output).toBe('0\n');
    });
  });

  it("the kernel's own files are read-only: limits, namespaces, crash handlers, and the groups of the sandbox", async () => {
    await underAttack(bench, async (sandbox) => {
      const files = [
        '/proc/sys/kernel/core_pattern',
        '/proc/sys/kernel/modprobe',
        '/proc/sysrq-trigger',
        '/proc/self/uid_map',
        '/proc/self/setgroups',
        '/proc/self/oom_score_adj',
        '/proc/1/oom_score_adj',
        '/proc/1/mem',
        '/proc/self/mem',
        '/proc/sys/kernel/shmall',
        '/sys/fs/cgroup/memory/memory.limit_in_bytes',
        '/sys/fs/cgroup/memory.max',
        '/sys/fs/cgroup/pids/pids.max',
        '/sys/fs/cgroup/pids.max',
        '/sys/fs/cgroup/cgroup.procs',
        '/sys/fs/cgroup/memory/release_agent',
        '/sys/kernel/uevent_helper',
        '/dev/mem',
        '/dev/kmsg',
      ];
      const { output } = await sh(
        sandbox,
        `for f in ${files.join(' ')}; do { echo 1 > $f; } 2>/dev/null && echo $f; done; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x 2>/dev/null && echo made; true`,
      );
      expect(output).toBe('');
    });
  });

  it('normal file operations work: links, renames between folders, standard streams by name', async () => {
    await underAttack(bench, async (sandbox) => {
      const uses =
        'mkdir -p a b; echo 1 > a/x; ln a/x b/y; mv a/x b/x; mv b c; cat c/x c/y; echo out > /dev/stdout; echo err > /dev/stderr; echo 2 >> /dev/fd/1; echo n > /dev/null; python3 -c "import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2])); m.Semaphore(); m.Queue()"; git init -q g && cd g && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && git gc -q && git log --format=%s';
      expect(await sh(sandbox, uses)).toMatchObject({ exitCode: 0, output: '1\n1\nout\nerr\n2\n[1, 2]\nm\n' });
    });
  });
});
