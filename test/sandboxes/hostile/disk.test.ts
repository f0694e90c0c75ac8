/** Hunts disk usage: files, names, holes and special files may use only the sandbox's limit, nothing of the host. */

import { describe, expect, it } from 'vitest';

import { callOf, sh } from '../harness.ts';
import { bounds, groupOf, openBenches, pidOf, python, SMALL, underAttack } from './host.ts';

const benches = await openBenches();
const MIB = 1 << 20;
const PLACES = ['/workspace', '/tmp', '/dev/shm'];

/** Makes files with the longest names until it fails, each with one page (if it gets one) at the highest offset. */
const FILL = `import os
for place in ${JSON.stringify(PLACES)}:
  n = 0
  try:
    while True:
      file = os.open(f"{place}/{n:0250}", os.O_CREAT | os.O_WRONLY)
      n += 1
      try: os.pwrite(file, b"x", ${SMALL.diskMiB * MIB - 2})
      except OSError: pass
      os.close(file)
  except OSError as e: print(e.errno)`;

describe.each(benches)('$name', (bench) => {
  it('the disk is full at its limit, and counts as memory of the sandbox', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const { output } = await sh(
        sandbox,
        'for d in /workspace /tmp /dev/shm; do cat /dev/zero > $d/full; done 2>/dev/null; du -cbs /workspace /tmp /dev/shm | tail -1 | cut -f1',
      );
      expect(Number(output)).toBeLessThanOrEqual(SMALL.diskMiB * MIB + 4096 * 3);
      expect((await groupOf(bench, id)).memoryPeak).toBeLessThanOrEqual(bounds(SMALL, bench).memory);
    });
  });

  it('endless files reach a limit on files before the memory is full, and their folders can be listed and removed', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const supervisor = await pidOf(bench, id);
      const call = callOf(python(FILL), { timeoutMs: 60_000 });
      const filled = await sandbox.exec(call);
      expect(filled).toMatchObject({ output: '28\n28\n28\n', outOfMemory: false });
      for (const place of PLACES) {
        const read = await sandbox.read(place, 4 * MIB);
        expect(read.kind === 'directory' && read.entries.length).toBeGreaterThan(700);
      }
      expect(await pidOf(bench, id)).toBe(supervisor);
      expect(await sandbox.exec(call)).toEqual(filled);
      const removed = await sh(
        sandbox,
        `find ${PLACES.join(' ')} -name '0*' -delete; touch /workspace/next && ls /workspace`,
        { timeoutMs: 60_000, alone: true },
      );
      expect(removed.output).toBe('next\n');
    });
  });

  it('endless files together with a large heap do not end the supervisor', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const supervisor = await pidOf(bench, id);
      const hog = `${FILL}\nx = []\nwhile True: x.append(bytearray(1 << 20))`;
      for (let round = 0; round < 3; round += 1) {
        expect(await sh(sandbox, python(hog), { fresh: true, timeoutMs: 60_000 })).toMatchObject({ outOfMemory: true });
        expect((await sandbox.read('/workspace', 4 * MIB)).kind).toBe('directory');
      }
      const { memory, memoryPeak } = await groupOf(bench, id);
      expect(memoryPeak).toBeLessThanOrEqual(memory);
      expect(await pidOf(bench, id)).toBe(supervisor);
    });
  });

  it('a file that is larger than the disk cannot be claimed', async () => {
    await underAttack(bench, async (sandbox) => {
      const { output } = await sh(
        sandbox,
        'truncate -s 4G /workspace/hole 2>&1; stat -c %s /workspace/hole; fallocate -l 1G /tmp/real 2>/dev/null; stat -c %s /tmp/real',
      );
      expect(output).not.toMatch(/^[1-9]\d{7,}$/mu);
    });
  });

  it('no file gives rights or is a device: set-uid bits and capabilities have no effect', async () => {
    await underAttack(bench, async (sandbox) => {
      const tries =
        'cp /usr/bin/id /tmp/id; chmod 6777 /tmp/id; [ "$(/tmp/id -u)" = "$(id -u)" ] && echo own; setcap cap_sys_admin+ep /tmp/id 2>/dev/null; mknod /tmp/null c 1 3 2>/dev/null; mknod /workspace/disk b 8 0 2>/dev/null; ls /tmp/null /workspace/disk 2>&1 | grep -c "No such file"';
      expect((await sh(sandbox, tries)).output).toBe('own\n2\n');
      expect(
        (await sh(sandbox, 'grep -E " (/workspace|/tmp|/dev/shm) " /proc/mounts | grep -c nosuid,nodev')).output,
      ).toBe('3\n');
    });
  });
});
