/**
 * Hunts a list of mutations that has come apart from the code, the tests or docs/reliability.md. Not asserted: that the
 * tests fail for them; `node test/mutations/run-mutations.ts` does that, which takes too long for every test run.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { MUTATIONS } from './entries/index.ts';
import { judgeMutated, judgeUnchanged } from './judge.ts';
import { mutated } from './mutation.ts';

const read = (file: string) => readFileSync(join(packageRoot, file), 'utf8');
const docs = read('docs/reliability.md');
/** Of the table of faults: the fault, and the files that show its handling. */
const rows = docs.split('\n').flatMap((line) => {
  const cells = line.split(/(?<!\\)\|/u).slice(1, -1);
  const files = [...(cells[3] ?? '').matchAll(/`(test\/[^`]+)`/gu)].map(([, file]) => file ?? '');
  return files.length > 0 ? [{ fault: (cells[0] ?? '').trim(), files }] : [];
});
/** Runs of the whole stack; docs/reliability.md says what was taken out under them. */
const WHOLE_STACK = /^test\/e2e\//u;

it.each(MUTATIONS.map((mutation) => [mutation.name, mutation] as const))(
  '%s: can be made, and its tests are there',
  (_, mutation) => {
    const text = read(mutation.file);
    expect(mutated(text, mutation)).not.toBe(text);
    expect(mutation.tests.length).toBeGreaterThan(0);
    for (const { file } of mutation.tests) expect(existsSync(join(packageRoot, file)), file).toBe(true);
  },
);

it('has each name once', () => {
  expect(new Set(MUTATIONS.map(({ name }) => name)).size).toBe(MUTATIONS.length);
});

describe('docs/reliability.md', () => {
  it('has a row for the fault of every mutation', () => {
    expect(
      MUTATIONS.filter(({ fault }) => !rows.some((row) => row.fault === fault)).map(
        ({ name, fault }) => `${name}: ${fault}`,
      ),
    ).toEqual([]);
  });

  it.each(rows)('names for "$fault" the tests that a mutation is killed by, and no other', ({ fault, files }) => {
    const killing = MUTATIONS.filter((one) => one.fault === fault).flatMap(({ tests }) =>
      tests.map(({ file }) => file),
    );
    const named = (file: string) => files.some((one) => one === file || (one.endsWith('/') && file.startsWith(one)));
    const shown = files.filter(
      (file) =>
        !WHOLE_STACK.test(file) && !killing.some((one) => one === file || (file.endsWith('/') && one.startsWith(file))),
    );
    expect({ neverSeenToFail: shown, notNamed: [...new Set(killing.filter((file) => !named(file)))] }).toEqual({
      neverSeenToFail: [],
      notNamed: [],
    });
  });

  it('says how many mutations there are, and names those that were not seen killed', () => {
    const [, all, killed] = /(\d+) mutations, (\d+) killed/.exec(docs) ?? [];
    const open = MUTATIONS.filter(({ name }) => docs.includes(`"${name}"`));
    expect([Number(all), Number(killed)]).toEqual([MUTATIONS.length, MUTATIONS.length - open.length]);
  });
});

describe('a mutation', () => {
  const killer = { file: 'a.test.ts', test: 'says so' };
  const result = (status: string, ...failures: string[]) => [
    { file: 'a.test.ts', fullName: 'it says so, at once', status, failures },
  ];

  it('is killed by a failed assertion alone; a hang counts where the fault is one', () => {
    expect(judgeMutated(killer, result('failed', 'AssertionError: expected 1 to be 2\n  at x'))).toEqual({
      ok: true,
      line: 'a.test.ts > says so: AssertionError: expected 1 to be 2',
    });
    expect(judgeMutated(killer, result('passed'))).toMatchObject({
      ok: false,
      line: expect.stringMatching(/^SURVIVED/),
    });
    const hung = result('failed', 'Error: Test timed out in 60000ms.');
    expect([judgeMutated(killer, hung).ok, judgeMutated({ ...killer, hangs: true }, hung).ok]).toEqual([false, true]);
    expect(judgeMutated(killer, []).ok).toBe(false);
    expect(judgeMutated({ ...killer, file: 'b.test.ts' }, result('failed', 'AssertionError'))).toMatchObject({
      ok: false,
    });
  });

  it('says nothing of a test that fails without it', () => {
    expect([
      judgeUnchanged(killer, result('passed')).ok,
      judgeUnchanged(killer, result('failed', 'x')).ok,
      judgeUnchanged(killer, []).ok,
    ]).toEqual([true, false, false]);
  });

  it('is refused where the code is another one by now', () => {
    const mutation = { name: 'n', fault: 'f', file: 'x.ts', before: 'a', after: 'b$&', tests: [killer] };
    expect(mutated('cat', mutation)).toBe('cb$&t');
    for (const text of ['dog', 'a a'])
      expect(() => mutated(text, mutation)).toThrow(/n: `before` occurs [02] times in x.ts/);
  });
});
