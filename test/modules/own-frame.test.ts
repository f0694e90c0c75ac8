/** Hunts an exception of a user's module that is reported without the place where it was thrown. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { loadModulesAt } from '../../activities/orchestrator/open-modules.ts';
import { messageWithPlace, ownFrame } from '../../modules/own-frame.ts';
import { environmentNamed } from '../../tasks/registry.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-own-frame-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const thrownBy = (body: () => unknown): unknown => {
  try {
    return body();
  } catch (error) {
    return error;
  }
};

it("names the first line of the user's module, below frames of Node and libraries, and never one of this package", async () => {
  writeFileSync(join(dir, 'grader.mjs'), "export const grade = () => {\n  return JSON.parse('{');\n};\n");
  const { grade } = (await import(join(dir, 'grader.mjs'))) as { grade: () => unknown };
  const error = thrownBy(grade);
  expect(ownFrame(error)).toBe(`${join(dir, 'grader.mjs')}:2`);
  await expect(withFailureMapping(() => Promise.reject(error))).rejects.toThrow(`(${join(dir, 'grader.mjs')}:2)`);
  expect(messageWithPlace(thrownBy(() => environmentNamed('nothing')))).not.toMatch(/\.ts:\d+/);
});

it('finds a file in a folder with spaces and parentheses, as a module and as a script', async () => {
  const below = join(dir, 'p (copy)');
  mkdirSync(below);
  writeFileSync(
    join(below, 'a.mjs'),
    "import { b } from './b.cjs';\nexport class A {\n  constructor(own) {\n    if (own) throw new Error('a');\n    b();\n  }\n}\nexport const eager = async (own) => {\n  await null;\n  new A(own);\n};\n",
  );
  writeFileSync(join(below, 'b.cjs'), 'exports.b = () => {\n  eval(\'throw new Error("b")\');\n};\n');
  const { A, eager } = (await import(join(below, 'a.mjs'))) as {
    A: new (own: boolean) => unknown;
    eager: (own: boolean) => Promise<void>;
  };
  expect(ownFrame(thrownBy(() => new A(true)))).toBe(`${join(below, 'a.mjs')}:4`);
  expect(ownFrame(thrownBy(() => new A(false)))).toBe(`${join(below, 'b.cjs')}:2`);
  expect(ownFrame(await eager(true).catch((error: unknown) => error))).toBe(`${join(below, 'a.mjs')}:4`);
});

it('ignores lines of the message that look like places', async () => {
  const file = join(dir, 'says.mjs');
  writeFileSync(
    file,
    'export const says = (message, later) => {\n  const error = new Error(message);\n  throw Object.assign(error, { message: later ?? message });\n};\n',
  );
  const { says } = (await import(file)) as { says: (message: string, later?: string) => unknown };
  for (const line of [
    '/etc/passwd:12',
    'file:///a/%zz.ts:1',
    '    at file:///a/%2f.ts:1:2',
    '    at f (/etc/passwd:12:1)',
  ])
    for (const message of [line, `x\n${line}`, `${line}\nx`])
      expect([message, ownFrame(thrownBy(() => says(message)))]).toEqual([message, `${file}:2`]);
  // The message was changed after the stack was made.
  expect(ownFrame(thrownBy(() => says('x\nfile:///a/%zz.ts:1\n    at file:///a/%zz.ts:1:2', 'y')))).toBe(`${file}:2`);
});

it.each([
  ['throws.mjs', "\nthrow new Error('not today');\n", /not today \(.*throws\.mjs:2\)/],
  ['broken.mjs', 'const a = 1;\nconst b = ;\n', /broken\.mjs:2/],
  ['broken.ts', 'const a: number = 1;\nconst b: = 2;\n', /broken\.ts:2/],
])('a module that does not load, %s, is named with its line', async (name, text, message) => {
  writeFileSync(join(dir, name), text);
  await expect(loadModulesAt([join(dir, name)])).rejects.toThrow(message);
});

it('a missing module is reported as missing, without the place of the import', async () => {
  await expect(loadModulesAt([join(dir, 'none.ts')])).rejects.toThrow(
    /none\.ts" cannot be used; give modules that can be bundled: there is no such file$/,
  );
});
