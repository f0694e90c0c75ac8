/** Hunts room on disk: files, names, holes and odd files take what the sandbox has, and nothing of the host's. */

import { describe, expect, it } from 'vitest';

import { sh } from '../harness.ts';
import { bounds, groupOf, openBenches, python, SMALL, underAttack } from './host.ts';

const benches = await openBenches();
const MIB = 1 << 20;

describe.each(benches)('$name', (bench) => {
  it('a full disk is full at its size, and counts as memory of the sandbox', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const { output } = await sh(sandbox, 'for d in /workspace /tmp /dev/shm; do cat /dev/zero > $d/full; done 2>/dev/null; du -cbs /workspace /tmp /dev/shm | tail -1 | cut -f1');
      expect(Number(output)).toBeLessThanOrEqual(SMALL.diskMiB * MIB + 4096 * 3);
      expect((await groupOf(bench, id)).memoryPeak).toBeLessThanOrEqual(bounds(SMALL, bench).memory);
    });
  });

  it('files without number end at a limit on files, or on memory, and can be removed again', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const many = 'import os\nos.mkdir("/workspace/many")\nn = 0\ntry:\n  while True:\n    os.close(os.open(f"/workspace/many/{n}", os.O_CREAT))\n    n += 1\nexcept OSError as e: print(e.errno)';
      const filled = await sh(sandbox, python(many), { timeoutMs: 60_000 });
      expect(filled.outOfMemory || filled.output === '28\n').toBe(true);
      const { memoryPeak, memory } = await groupOf(bench, id);
      expect(memoryPeak).toBeLessThanOrEqual(memory);
      await sh(sandbox, 'rm -rf /workspace/many', { timeoutMs: 60_000, alone: true });
    });
  });

  it('a file that is larger than the disk cannot be claimed', async () => {
    await underAttack(bench, async (sandbox) => {
      const { output } = await sh(sandbox, 'truncate -s 4G /workspace/hole 2>&1; stat -c %s /workspace/hole; fallocate -l 1G /tmp/real 2>/dev/null; stat -c %s /tmp/real');
      expect(output).not.toMatch(/^[1-9]\d{7,}$/mu);
    });
  });

  it('no file gives rights or is a device: set-uid bits and capabilities are without effect', async () => {
    await underAttack(bench, async (sandbox) => {
      const tries = 'cp /usr/bin/id /tmp/id; chmod 6777 /tmp/id; /tmp/id -u; setcap cap_sys_admin+ep /tmp/id 2>/dev/null; mknod /tmp/null c 1 3 2>/dev/null; mknod /workspace/disk b 8 0 2>/dev/null; ls /tmp/null /workspace/disk 2>&1 | grep -c "No such file"';
      expect((await sh(sandbox, tries)).output).toBe('1000\n2\n');
      expect((await sh(sandbox, 'grep -E " (/workspace|/tmp|/dev/shm) " /proc/mounts | grep -c nosuid,nodev')).output).toBe('3\n');
    });
  });
});
