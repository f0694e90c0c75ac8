/** Hunts configuration files of new users that are refused without an error that names the problem and its place. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readSettings } from '../../../config/read-config.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-config-files-'));
afterAll(() => rmSync(dir, { recursive: true }));

it.each([
  ['run: a\nrun: b\n', /fix its YAML: Map keys must be unique at line 2, column 1: "run: b"$/],
  ['run: x\nsteps: 5\n\tpolicy: 2\n', /Tabs are not allowed as indentation at line 3, column 1: "policy: 2"$/],
  ['- a\n', /give a YAML mapping of settings$/],
  ['', /give a YAML mapping of settings$/],
])('%j is refused with the line', async (text, message) => {
  const path = join(dir, 'mine.yaml');
  writeFileSync(path, text);
  await expect(readSettings(path)).rejects.toThrow(message);
});

it('a missing file, a folder, and a setting without a name are reported as such', async () => {
  await expect(readSettings(join(dir, 'none.yaml'))).rejects.toThrow(
    'give a YAML file that can be read: there is no such file',
  );
  await expect(readSettings(dir)).rejects.toThrow('give a YAML file that can be read: that is a folder');
  writeFileSync(join(dir, 'good.yaml'), 'steps: 3\n');
  await expect(readSettings(join(dir, 'good.yaml'), ['a..b=3'])).rejects.toThrow(
    '--set: "a..b=3" cannot be used; write it as a.b=c',
  );
});

it('a setting of a list is changed by its position, as errors name it', async () => {
  const path = join(dir, 'lists.yaml');
  writeFileSync(path, 'stages: [{ steps: 1, data: a }, { steps: 2 }]\npolicies: [starter, oracle]\nnone: []\n');
  expect(await readSettings(path, ['stages.1.steps=5', 'stages.0.data=b', 'policies.1=empty'])).toEqual({
    stages: [{ steps: 1, data: 'b' }, { steps: 5 }],
    policies: ['starter', 'empty'],
    none: [],
  });
  await expect(readSettings(path, ['stages.2.steps=5'])).rejects.toThrow(
    '--set: "stages.2.steps=5" cannot be used; ' +
      'stages is a list with the entries stages.0 to stages.1: name one of them, or set stages=[…]',
  );
  await expect(readSettings(path, ['stages.steps=5'])).rejects.toThrow('stages is a list with the entries');
  await expect(readSettings(path, ['none.0=5'])).rejects.toThrow('none is a list with no entry');
});
