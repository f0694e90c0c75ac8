/** Hunts an exception of a user's module that is reported without the place where it was thrown. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { classified } from '../../activities/failures.ts';
import { messageWithPlace, ownFrame } from '../../tasks/own-frame.ts';
import { environmentOf } from '../../tasks/registry.ts';
import { loadOwnModules } from '../../workers/own-modules.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-own-frame-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const thrownBy = (body: () => unknown): unknown => {
  try {
    return body();
  } catch (error) {
    return error;
  }
};

it("names the first line of the user's own, below what Node and libraries did for it, and nothing of this package", async () => {
  writeFileSync(join(dir, 'grader.mjs'), "export const grade = () => {\n  return JSON.parse('{');\n};\n");
  const { grade } = (await import(join(dir, 'grader.mjs'))) as { grade: () => unknown };
  const error = thrownBy(grade);
  expect(ownFrame(error)).toBe(`${join(dir, 'grader.mjs')}:2`);
  await expect(classified(() => Promise.reject(error))).rejects.toThrow(`(${join(dir, 'grader.mjs')}:2)`);
  expect(messageWithPlace(thrownBy(() => environmentOf('nothing')))).not.toMatch(/\.ts:\d+/);
});

it.each([
  ['throws.mjs', "\nthrow new Error('not today');\n", /not today \(.*throws\.mjs:2\)/],
  ['broken.mjs', 'const a = 1;\nconst b = ;\n', /broken\.mjs:2/],
  ['broken.ts', 'const a: number = 1;\nconst b: = 2;\n', /broken\.ts:2/],
])('a module that does not load, %s, is named with its line', async (name, text, message) => {
  writeFileSync(join(dir, name), text);
  await expect(loadOwnModules([join(dir, name)])).rejects.toThrow(message);
});

it('a module that is not there is called that, without a word on who looked for it', async () => {
  await expect(loadOwnModules([join(dir, 'none.ts')])).rejects.toThrow(/none\.ts" cannot be used; give modules that can be imported \(there is no such file\)$/);
});
