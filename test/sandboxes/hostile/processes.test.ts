/**
 * Hunts processes: those that multiply, hide, kill, or do not end must use no more than their share of the host, and
 * must end with their sandbox.
 */

import { readdirSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { eventually, onHost, sh } from '../harness.ts';
import { bounds, expectFresh, groupOf, openBenches, pidOf, python, SMALL, underAttack } from './host.ts';

const benches = await openBenches(true);
const BOMB = 'bomb() { bomb | bomb & }; bomb 2>/dev/null';
/** Kills every process that it may kill, a thousand times a second, each new shell too. */
const KILLER = python(
  'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nfor _ in range(20000):\n  try: os.kill(-1, 9)\n  except OSError: pass\n  time.sleep(0.001)',
);

describe.each(benches)('$name', (bench) => {
  it('a fork bomb stays within the processes and processors of its sandbox', async () => {
    await underAttack(bench, async (sandbox, id) => {
      expect((await sh(sandbox, `${BOMB}; sleep 100`, { timeoutMs: 700 })).timedOut).toBe(true);
      const bound = bounds(SMALL, bench);
      const group = await groupOf(bench, id);
      expect(group.processes).toBeLessThanOrEqual(bound.processes);
      expect(group.processesNow).toBeLessThanOrEqual(bound.processes);
      expect(group.cpus).toBe(bound.cpus);
    });
  });

  it('a fork bomb in the background does not prevent new calls', async () => {
    await underAttack(bench, async (sandbox, id) => {
      await sh(sandbox, `${BOMB}; disown -a`);
      sandbox.close();
      const again = await eventually('a new connection', async () => bench.provider.connect(id).catch(() => undefined));
      expect((await groupOf(bench, id)).processes).toBeLessThanOrEqual(bounds(SMALL, bench).processes);
      // It uses the sandbox's processors until a call with a time limit ends it.
      expect((await sh(again, 'sleep 100', { timeoutMs: 100 })).timedOut).toBe(true);
      again.close();
    });
  });

  it('calls that find no room for a process leave nothing behind in the supervisor', async () => {
    await underAttack(bench, async (sandbox, id) => {
      /** With a shell, which has two. */
      const open = async () => {
        await sh(sandbox, 'true');
        return readdirSync(`/proc/${await pidOf(bench, id)}/fd`).length;
      };
      const hold = python(
        'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nwhile True:\n  try:\n    if os.fork() == 0: time.sleep(100)\n  except OSError: time.sleep(0.001)',
      );
      const before = await open();
      let refused = 0;
      for (let n = 0; n < 8; n += 1) {
        await sh(sandbox, `${hold}; sleep 0.2`);
        if ((await sh(sandbox, 'true', { fresh: true })).timedOut) refused += 1;
        await sh(sandbox, 'true', { alone: true });
      }
      // Bubblewrap's supervisor has room that the policy cannot use.
      if (bench.kind === 'docker') expect(refused).toBeGreaterThan(0);
      expect(await open()).toBe(before);
    });
  });

  it('a process that kills every shell, during and between calls, does not end the sandbox', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const pid = await pidOf(bench, id);
      await sh(sandbox, KILLER);
      await new Promise((resolve) => setTimeout(resolve, 1000));
      await sh(sandbox, KILLER, { fresh: true });
      await new Promise((resolve) => setTimeout(resolve, 1000));
      expect(await sh(sandbox, 'echo by myself', { alone: true })).toMatchObject({
        output: 'by myself\n',
        exitCode: 0,
      });
      expect(await pidOf(bench, id)).toBe(pid);
    });
  });

  it('a process that stops every shell is ended by the time limit', async () => {
    await underAttack(bench, async (sandbox) => {
      await sh(
        sandbox,
        `${python('import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nwhile True:\n  try: os.kill(-1, 19)\n  except OSError: pass\n  time.sleep(0.001)')}; sleep 0.1`,
        { timeoutMs: 1000 },
      );
      await sh(sandbox, 'echo stopped', { timeoutMs: 500 });
    });
  });

  it('zombies, orphans and threads are counted and cleared like any process', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const flood =
        'import os, threading, time\nfor _ in range(200):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: break\nfor _ in range(200):\n  try: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n  except RuntimeError: break\nprint("full", flush=True)\ntime.sleep(100)';
      expect(await sh(sandbox, python(flood), { timeoutMs: 1500 })).toMatchObject({ timedOut: true, output: 'full\n' });
      expect((await groupOf(bench, id)).processesNow).toBeLessThan(10);
    });
  });

  it('processes that hide in sessions and double forks end with the sandbox', async () => {
    const mark = `longhaul-hostile-${process.pid}`;
    await underAttack(bench, async (sandbox) => {
      await sh(sandbox, `(setsid bash -c '(exec -a ${mark} sleep 1000) & disown' &) ; sleep 0.3`, { fresh: true });
      await eventually('it hides', () => (onHost(mark) > 0 ? true : undefined));
    });
    expect(onHost(mark)).toBe(0);
  });

  it('the next sandbox on this host is like any other', () => expectFresh(bench));
});
