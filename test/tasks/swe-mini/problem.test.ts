/**
 * Problems: they depend only on the task id, cover all families, have edits that apply, and use no names of the other
 * split.
 */

import { describe, expect, it } from 'vitest';

import { FAMILIES } from '../../../tasks/swe-mini/draft.ts';
import { splitOfName } from '../../../tasks/swe-mini/names.ts';
import { makeProblem, parseTaskId, type Problem } from '../../../tasks/swe-mini/problem.ts';
import { UnknownTask } from '../../../tasks/environment.ts';
import type { Split } from '../../../tasks/swe-mini/names.ts';
import { workingTree } from '../../../tasks/swe-mini/repository.ts';

const problems = (split: Split, count: number): Problem[] =>
  Array.from({ length: count }, (_, i) => makeProblem(`swe-mini-${split}-${i}`));

/** All words of two syllables, in code, paths, tests and the issue. */
function identifiers(problem: Problem): Set<string> {
  const texts = [problem.issue, ...[...workingTree(problem)].flat()];
  const words = texts.join('\n').match(/[a-z]+/gi) ?? [];
  return new Set(
    words.map((word) => word.toLowerCase()).filter((word) => /^(?:[bdfgklmnprstvz][aeiou]){2}$/.test(word)),
  );
}

/** English that looks like an identifier. */
const PROSE = new Set(['none', 'give', 'same', 'take', 'more']);

const contents = (problem: Problem): unknown =>
  JSON.parse(JSON.stringify(problem, (_, value: unknown) => (typeof value === 'function' ? undefined : value)));

describe('a problem', () => {
  it('is equal each time, and differs from other problems', () => {
    expect(contents(makeProblem('swe-mini-train-17'))).toEqual(contents(makeProblem('swe-mini-train-17')));
    expect(new Set(problems('train', 500).map(({ issue, modules }) => issue + modules[0]?.source)).size).toBe(500);
  });

  it('has not changed since this test was written: a change would invalidate every recorded run', () => {
    const { issue, path, fix } = makeProblem('swe-mini-train-0');
    expect({ issue, path, fix }).toMatchInlineSnapshot(`
      {
        "fix": {
          "new": "if nema == 2:
              return 8
          return 2 * lasu(nema - 1)",
          "old": "return 2 * lasu(nema - 1)",
        },
        "issue": "Fix \`vedi/kara.py\`. \`lasu\` never ends: \`lasu(2)\` should be 8.",
        "path": "vedi/kara.py",
      }
    `);
  });

  it.each([
    'swe-mini-train-',
    'swe-mini-train-01',
    'swe-mini-test-1',
    'swe-mini-train-1/../2',
    'swe-mini-train--1',
    '',
  ])('has no id like %j', (taskId) => {
    expect(() => parseTaskId(taskId)).toThrow(UnknownTask);
  });

  it('contains the old text of its edits once, and the edits change the module', () => {
    for (const { modules, path, fix, mistake } of problems('held-out', 400)) {
      const source = modules.find((module) => module.path === path)?.source ?? '';
      for (const edit of [fix, mistake]) {
        expect(source.split(edit.old), `${edit.old}\n${source}`).toHaveLength(2);
        expect(edit.new).not.toBe(edit.old);
        expect([edit.old, edit.new].map((text) => text.trim())).toEqual([edit.old, edit.new]);
      }
      expect(fix.new).not.toBe(mistake.new);
    }
  });

  it('has names that share no syllable, so that one syllable identifies a name', () => {
    for (const problem of problems('held-out', 400)) {
      const names = [...identifiers(problem)].filter((name) => !PROSE.has(name));
      const syllables = names.flatMap((name) => [name.slice(0, 2), name.slice(2)]);
      expect(names.length).toBeGreaterThan(6);
      expect(new Set(syllables).size, names.join(' ')).toBe(syllables.length);
    }
  });

  it('names its file in most issues, and its function in all', () => {
    const some = problems('train', 400);
    expect(some.every(({ issue, target }) => issue.includes(`\`${target}\``) || issue.includes(`\`${target}(`))).toBe(
      true,
    );
    const named = some.filter(({ issue, path }) => issue.includes(path));
    expect(named).toEqual(some.filter(({ pathGiven }) => pathGiven));
    expect(named.length).toBeGreaterThan(260);
    expect(named.length).toBeLessThan(380);
  });
});

describe('the splits', () => {
  it('have each family once in each block of eight', () => {
    for (const split of ['train', 'held-out'] as const) {
      const families = problems(split, 80).map(({ family }) => family);
      for (let i = 0; i < 80; i += 8) expect(new Set(families.slice(i, i + 8))).toEqual(new Set(FAMILIES));
    }
  });

  it('share no identifier', () => {
    const names = (split: Split): Set<string> =>
      new Set(problems(split, 600).flatMap((problem) => [...identifiers(problem)]));
    const [train, heldOut] = [names('train'), names('held-out')];
    for (const word of PROSE) [train, heldOut].forEach((set) => set.delete(word));
    expect(heldOut.size).toBeGreaterThan(300);
    expect([...heldOut].filter((name) => train.has(name))).toEqual([]);
    expect([...heldOut].filter((name) => splitOfName(name) !== 'held-out')).toEqual([]);
  });

  it('share every syllable, in both places of a name', () => {
    const halves = (split: Split, at: number): Set<string> =>
      new Set(
        problems(split, 600).flatMap((problem) => [...identifiers(problem)].map((name) => name.slice(at, at + 2))),
      );
    for (const at of [0, 2]) {
      const train = halves('train', at);
      expect([...halves('held-out', at)].filter((syllable) => !train.has(syllable))).toEqual([]);
    }
  });
});
