/**
 * Reading and writing: only regular files, with the rights of the sandbox's user, and never through links or magic
 * paths.
 */

import { beforeAll, describe, expect, it } from 'vitest';

import type { ReadResult, Sandbox } from '../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
let sandbox: Sandbox;
let writes = 0;

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('files'));
});

const write = async (path: string, content: string | Uint8Array): Promise<string | undefined> => {
  writes += 1;
  return (await sandbox.write({ callId: `w${writes}`, path, content: Buffer.from(content), note: 'n' })).error;
};

const textOf = (result: ReadResult): string =>
  result.kind === 'file' ? Buffer.from(result.content).toString() : result.kind;

describe('writing', () => {
  it('makes parents, keeps the mode, and leaves nothing beside the file', async () => {
    expect(await write('deep/er/file name', 'text')).toBeUndefined();
    await sh(sandbox, 'chmod 755 "deep/er/file name"');
    expect(await write('/workspace/deep/er/file name', 'more\r\n')).toBeUndefined();
    expect((await sh(sandbox, 'ls -A deep/er; stat -c %a:%U deep/er/*; od -c deep/er/* | head -1')).output).toBe(
      'file name\n755:agent\n0000000   m   o   r   e  \\r  \\n\n',
    );
    expect(await write('empty', '')).toBeUndefined();
    expect(textOf(await sandbox.read('empty', 0))).toBe('');
  });

  it.each([
    ['a directory', 'mkdir -p target', 'target', 'is a directory'],
    ['a symbolic link to a file', 'ln -sf /etc/passwd target', 'target', 'is a symbolic link'],
    ['a dangling link', 'ln -sf /tmp/nowhere target', 'target', 'is a symbolic link'],
    ['a named pipe', 'mkfifo target', 'target', 'is not a regular file'],
    ['a link into the supervisor', 'ln -s /proc/1/fd target', 'target/4', 'is a symbolic link'],
    ['its own descriptors', 'ln -s /proc/self/fd target', 'target/4', 'is a symbolic link'],
    ['the system', 'true', '/usr/bin/new', 'is read-only'],
    ['a file as a directory', 'echo x > target', 'target/x', 'a part of the path is not a directory'],
    ['a name that is too long', 'true', 'x'.repeat(300), 'the path is too long'],
  ])('refuses %s', async (_, prepare, path, reason) => {
    await sh(sandbox, `rm -rf target; ${prepare}`);
    expect(await write(path, 'mine')).toBe(reason);
    await sh(sandbox, 'rm -rf target');
  });
});

describe('reading', () => {
  it('distinguishes files, directories, missing files and files that are too large', async () => {
    await sh(
      sandbox,
      'mkdir -p dir/sub; echo hi > dir/b; echo hi > dir/.a; head -c 1000 /dev/zero > large; truncate -s 60M sparse',
    );
    expect(await sandbox.read('dir', 0)).toEqual({ kind: 'directory', entries: ['.a', 'b', 'sub/'] });
    expect(textOf(await sandbox.read('/workspace/dir/b', 100))).toBe('hi\n');
    expect(await sandbox.read('nothing/here', 100)).toEqual({ kind: 'missing' });
    expect(await sandbox.read('large', 999)).toEqual({ kind: 'too-large', bytes: 1000 });
    expect((await sandbox.read('large', 1000)).kind).toBe('file');
    expect(await sandbox.read('sparse', 1 << 20)).toEqual({ kind: 'too-large', bytes: 60 << 20 });
  });

  it('returns bytes unchanged', async () => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n % 256);
    await write('bytes', bytes);
    const result = await sandbox.read('bytes', 1 << 20);
    expect(result.kind === 'file' && Buffer.from(result.content).equals(bytes)).toBe(true);
  });

  it.each([
    ['a symbolic link', 'ln -sf /etc/passwd target', 'target'],
    ['a loop', 'ln -sf target target', 'target'],
    ['a named pipe', 'mkfifo target', 'target'],
    ['a socket', `python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("target")'`, 'target'],
    ['a device', 'true', '/dev/zero'],
    ['the memory of the supervisor', 'true', '/proc/self/mem'],
    ['the memory of pid 1', 'true', '/proc/1/mem'],
    ['the journal by its descriptor', 'ln -s /proc/self/fd target', 'target/4'],
    ['a link to the root of the supervisor', 'ln -s /proc/self/root target', 'target/etc/passwd'],
    ['a file without rights', 'echo x > target; chmod 000 target', 'target'],
    ['a path with a NUL', 'true', 'a\0b'],
  ])('refuses %s', async (_, prepare, path) => {
    await sh(sandbox, `rm -rf target; ${prepare}`);
    expect((await sandbox.read(path, 1000)).kind).toBe('denied');
    await sh(sandbox, 'rm -rf target');
  });

  it('works while a command runs', async () => {
    const running = sh(sandbox, 'until [ -e go ]; do sleep 0.02; done; cat go');
    expect(textOf(await sandbox.read('dir/b', 100))).toBe('hi\n');
    await write('go', 'went');
    expect((await running).output).toBe('went');
  });
});
