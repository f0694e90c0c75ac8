/** Hunts a home whose store, sockets, logs and ports other users of the machine can read. */

import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { makeHome } from '../../connection/home-folder.ts';

const NOBODY = 65_534;
let dir: string;
let umask: number;

beforeEach(() => {
  umask = process.umask(0);
  dir = mkdtempSync(join(tmpdir(), 'longhaul-home-'));
  chmodSync(dir, 0o755);
});

afterEach(() => {
  process.umask(umask);
  rmSync(dir, { recursive: true, force: true });
});

const modeOf = (path: string): number => statSync(path).mode & 0o7777;

it('is closed when it is made, whatever the umask', () => {
  makeHome(join(dir, 'new'));
  expect(modeOf(join(dir, 'new'))).toBe(0o700);
});

it.each([0o755, 0o777, 0o750, 0o711])('is closed if it exists and is open (%o), with all its content', (mode) => {
  const home = join(dir, 'old');
  mkdirSync(home);
  writeFileSync(join(home, 'stack.json'), 'ports', { mode: 0o644 });
  chmodSync(home, mode);
  makeHome(home);
  expect(modeOf(home)).toBe(0o700);
  if (process.getuid?.() !== 0) return;
  const read = spawnSync('cat', [join(home, 'stack.json')], { uid: NOBODY, gid: NOBODY, encoding: 'utf8' });
  expect(read.stdout + read.stderr).toMatch(/Permission denied/u);
});

it('is never a folder that contains other files', () => {
  const project = join(dir, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'theirs.txt'), '');
  expect(() => makeHome(project)).toThrow(
    /LONGHAUL_HOME: ".*project" cannot be used; give a folder of its own: that one contains files of other programs/u,
  );
  expect(modeOf(project)).toBe(0o777);
});

it('is never a folder that all users share', () => {
  const shared = join(dir, 'shared');
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  expect(() => makeHome(shared)).toThrow(UserInputError);
  expect(modeOf(shared)).toBe(0o1777);
});
