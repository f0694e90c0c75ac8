/** The repository that is written without git, read by the real git. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { makeGitRepository } from '../../../tasks/swe-mini/git-objects.ts';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import { makeRepository, workingTree } from '../../../tasks/swe-mini/repository.ts';

const problem = makeProblem('swe-mini-train-3');
const repository = makeRepository(problem);
const dir = mkdtempSync(join(tmpdir(), 'longhaul-git-'));

const git = (...args: string[]): string =>
  execFileSync('git', ['-c', 'safe.directory=*', ...args], {
    cwd: dir,
    encoding: 'utf8',
    env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
  });

beforeAll(() => {
  const tree = [...workingTree(problem)].map(([path, content]) => ({ path, content }));
  for (const { path, content } of [...tree, ...repository.files]) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('the repository', () => {
  it('is sound, and its working tree clean', () => {
    expect(git('fsck', '--strict', '--full')).toBe('');
    expect(git('status', '--porcelain')).toBe('');
    expect(git('rev-parse', 'HEAD').trim()).toBe(repository.head);
  });

  it('has a history of a few commits with fixed dates', () => {
    const log = git('log', '--format=%an %aI %s').trim().split('\n');
    expect(log).toHaveLength(4);
    expect(log.every((line) => /^Longhaul 202[45]-\d\d-\d\dT09:00:00\+00:00 /.test(line))).toBe(true);
  });

  it('does not reveal the fix in its history', () => {
    expect(git('log', '-p', '--all')).toContain(problem.fix.old);
    expect(
      git('log', '-p', '--all')
        .split('\n')
        .filter((line) => line.slice(1).trim() === problem.fix.new),
    ).toEqual([]);
  });

  it('has equal bytes each time', () => {
    expect(makeRepository(makeProblem('swe-mini-train-3')).files).toEqual(repository.files);
  });

  it('sorts a directory after a file whose name continues with a lesser character, as git does', () => {
    const tree = new Map([
      ['a/b', 'x'],
      ['a.py', 'y'],
      ['a0', 'z'],
    ]);
    const { files, head } = makeGitRepository([{ message: 'm', tree, time: 0 }]);
    for (const { path, content } of files.filter(({ path }) => path.startsWith('.git/objects'))) {
      mkdirSync(dirname(join(dir, path)), { recursive: true });
      writeFileSync(join(dir, path), content);
    }
    expect(git('fsck', '--strict', head)).not.toContain('error');
    expect(git('ls-tree', '--name-only', head)).toBe('a.py\na\na0\n');
  });
});
