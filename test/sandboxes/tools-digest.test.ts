/** Hunts other packages that have the digest of the first ones, and the same packages with two digests. */

import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { toolsDigest } from '../../sandboxes/tools-digest.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-tools-digest-'));
afterAll(() => rmSync(dir, { recursive: true }));

function folderOf(name: string): (file: string) => string {
  const at = (file: string): string => join(dir, name, file);
  for (const folder of ['kit-1.0.dist-info', 'kit', 'bin']) mkdirSync(at(folder), { recursive: true });
  writeFileSync(at('kit/agent.py'), 'ask()\n');
  writeFileSync(at('kit-1.0.dist-info/RECORD'), 'kit/agent.py,sha256=abc,6\n');
  writeFileSync(at('bin/agent'), '#!/bin/sh\n', { mode: 0o755 });
  symlinkSync('agent', at('bin/alias'));
  return at;
}

it('the same packages have one digest: on other hosts, at other times, and after their use', async () => {
  const [one, other] = [folderOf('one'), folderOf('other')];
  utimesSync(other('kit/agent.py'), 1000, 1000);
  mkdirSync(other('kit/__pycache__'));
  writeFileSync(other('kit/__pycache__/agent.cpython-313.pyc'), 'compiled');
  expect(await toolsDigest(one('.'))).toBe(await toolsDigest(other('.')));
  expect(await toolsDigest(one('.'))).toMatch(/^[0-9a-f]{64}$/u);
});

it.each<[string, (at: (file: string) => string) => void]>([
  ['a file of another size', (at) => writeFileSync(at('kit/agent.py'), 'ask(1)\n')],
  ['another hash in pip’s list', (at) => writeFileSync(at('kit-1.0.dist-info/RECORD'), 'kit/agent.py,sha256=abd,6\n')],
  ['a further file', (at) => writeFileSync(at('kit/more.py'), '')],
  ['a file that is missing', (at) => unlinkSync(at('kit/agent.py'))],
  [
    'a program that is none any more',
    (at) => {
      unlinkSync(at('bin/agent'));
      writeFileSync(at('bin/agent'), '#!/bin/sh\n', { mode: 0o644 });
    },
  ],
  [
    'a link to elsewhere',
    (at) => {
      unlinkSync(at('bin/alias'));
      symlinkSync('agenz', at('bin/alias'));
    },
  ],
  [
    'a file in another folder',
    (at) => {
      cpSync(at('kit/agent.py'), at('bin/agent.py'));
      unlinkSync(at('kit/agent.py'));
    },
  ],
])('%s is another digest', async (name, change) => {
  const at = folderOf(name);
  const before = await toolsDigest(at('.'));
  change(at);
  expect(await toolsDigest(at('.'))).not.toBe(before);
});
