/**
 * Hunts archives: a workspace is read as bytes and unpacked inside a sandbox. Its links are not followed, its content
 * is not trusted, and it does not grow on the way.
 */

import { existsSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { restoreSnapshot } from '../../../sandboxes/snapshot.ts';
import { sh, specOf } from '../harness.ts';
import { type HeldSnapshot, snapshotOf } from '../held-snapshot.ts';
import { openBenches, python, SMALL, underAttack } from './host.ts';

const benches = await openBenches();
const ESCAPED = `/tmp/longhaul-escaped-${process.pid}`;

async function taken(sandbox: Sandbox, callId: string): Promise<HeldSnapshot> {
  const snapshot = await snapshotOf(sandbox, { workdir: '/workspace' }, callId);
  if (typeof snapshot === 'string') throw new Error(snapshot);
  return snapshot;
}

describe.each(benches)('$name', (bench) => {
  it('links, odd names, set-uid bits and pipes are restored unchanged, and give no access', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const files = [
        'ln -s / root; ln -s ../../../../../../tmp up; ln -s /proc/1/root pid1; ln -s loop loop; mkdir d; ln -s .. d/parent',
        "touch -- '-rf' '--checkpoint=1' '--checkpoint-action=exec=touch escaped' $'new\\nline' $'\\033[2J' ' '",
        'cp /usr/bin/id id; chmod 6755 id; mkfifo pipe; echo deep > d/file; ln d/file hard',
      ];
      await sh(sandbox, files.join('\n'));
      await sh(sandbox, `export PATH=/tmp/evil:$PATH BASH_ENV=/tmp/evil LD_PRELOAD=/tmp/evil.so; cd d`);
      const snapshot = await taken(sandbox, 'hostile');
      const restored = await restoreSnapshot(bench.provider, specOf(`${id}/restored`, { limits: SMALL }), snapshot);
      const look =
        'cd /workspace; ls -A | sha256sum; stat -c "%A %h" -- * | sort | uniq -c; readlink root up pid1 loop d/parent | tr "\\n" " "; ls | grep -c escaped; [ "$(./id -u)" = "$(id -u)" ] && echo own; stat -c %h hard; ls /tmp/evil 2>&1 | grep -c "No such"';
      const before = (await sh(sandbox, look, { fresh: true })).output;
      expect(before.endsWith('/ ../../../../../../tmp /proc/1/root loop .. 1\nown\n2\n1\n')).toBe(true);
      expect((await sh(restored, look, { fresh: true })).output).toBe(before);
      expect((await restored.state?.())?.directory).toBe('/workspace/d');
      restored.close();
      await bench.provider.destroy(`${id}/restored`);
      expect(existsSync(ESCAPED)).toBe(false);
    });
  });

  it('an archive that was made by hand stays within its folder when it is unpacked', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const evil = [
        'import io, tarfile',
        't = tarfile.open("/workspace/x.tgz", "w:gz")',
        'def add(name, kind=tarfile.REGTYPE, link="", mode=0o644):',
        '  i = tarfile.TarInfo(name); i.type = kind; i.linkname = link; i.size = 4 if kind == tarfile.REGTYPE else 0; i.mode = mode',
        '  t.addfile(i, io.BytesIO(b"evil"))',
        `add("${ESCAPED}"); add("../../..${ESCAPED}"); add("s", tarfile.SYMTYPE, "/tmp"); add("s/through"); add("h", tarfile.LNKTYPE, "/etc/passwd")`,
        'add("dev", tarfile.CHRTYPE); add("root", mode=0o6777); add("good")',
        't.close()',
        'print(open("/workspace/x.tgz", "rb").read().hex())',
      ];
      const archive = Buffer.from((await sh(sandbox, python(evil.join('\n')))).output.trim(), 'hex');
      const snapshot = { pieces: [archive], shell: { directory: '/workspace', exports: '' } };
      const spec = specOf(`${id}/by-hand`, { limits: SMALL });
      // Tar rejects devices and paths that lead outside: then there is no sandbox, and nothing was written outside.
      await expect(restoreSnapshot(bench.provider, spec, snapshot)).rejects.toThrow(/unpack|snapshot/iu);
      expect(await bench.provider.list()).not.toContain(spec.id);
      expect(existsSync(ESCAPED)).toBe(false);
    });
  });

  it('sparse files are packed by their data, and archive bombs are limited by the disk', async () => {
    await underAttack(bench, async (sandbox, id) => {
      await sh(sandbox, 'truncate -s 10M hole{1..300}; echo 1 > hole7');
      const snapshot = await taken(sandbox, 'holes');
      expect(snapshot.bytes).toBeLessThan(200_000);
      const bomb = Buffer.from(
        (
          await sh(
            sandbox,
            'rm hole*; python3 -c \'import io,tarfile,sys\nb=io.BytesIO()\nt=tarfile.open(fileobj=b,mode="w:gz",compresslevel=1)\nfor n in range(4):\n  i=tarfile.TarInfo("workspace/"+str(n)); i.size=4<<20; t.addfile(i, io.BytesIO(bytes(4<<20)))\nt.close()\nopen("/tmp/bomb","wb").write(b.getvalue())\'; base64 -w0 /tmp/bomb',
            { fresh: true },
          )
        ).output,
        'base64',
      );
      const swollen = { pieces: [bomb], shell: { directory: '/workspace', exports: '' } };
      await expect(
        restoreSnapshot(bench.provider, specOf(`${id}/bomb`, { limits: { ...SMALL, diskMiB: 8 } }), swollen),
      ).rejects.toThrow();
      expect(await bench.provider.list()).not.toContain(`${id}/bomb`);
    });
  });
});
