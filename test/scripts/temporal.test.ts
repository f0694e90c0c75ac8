/** Hunts a server program that is searched in the wrong order, downloaded twice, or requested without a network. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { findTemporal, makeTemporal } from '../../scripts/setup/temporal/temporal.mjs';

let directory: string;
let bin: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-temporal-'));
  bin = join(directory, 'bin');
  mkdirSync(bin);
  vi.stubGlobal('fetch', async () => {
    throw Object.assign(new TypeError('fetch failed'), { cause: { code: 'ENOTFOUND' } });
  });
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  rmSync(directory, { recursive: true, force: true });
});

function program(name: string, script: string): void {
  writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, name), 0o755);
}

test('a program on PATH is used, and nothing is downloaded', async () => {
  program('temporal', 'echo temporal version 9');
  const env = { PATH: bin };
  expect(findTemporal(directory, env)).toEqual({ path: join(bin, 'temporal'), from: 'PATH' });
  expect(await makeTemporal(directory, env)).toBe('temporal version 9 (PATH)');
});

test('if the download fails, go builds the version that it can build, once', async () => {
  program(
    'go',
    `if [ "$1" = env ]; then echo go1.26.8; exit; fi; echo "$@" >> ${directory}/asked; printf '#!/bin/sh\\necho built' > "$GOBIN/temporal"; /bin/chmod +x "$GOBIN/temporal"`,
  );
  const env = { PATH: `${bin}:/usr/bin:/bin` };
  const cache = join(directory, 'cache');
  const only = { PATH: bin };
  vi.stubEnv('PATH', env.PATH);
  expect(await makeTemporal(cache, only)).toBe('built (built by go, since the download failed: ENOTFOUND)');
  expect(await makeTemporal(cache, only)).toBe('built (cache)');
  expect(readFileSync(join(directory, 'asked'), 'utf8')).toBe(
    'install github.com/temporalio/cli/cmd/temporal@v1.5.1\n',
  );
  expect(findTemporal(cache, only)?.from).toBe('cache');
});

test('an archive that is not the pinned one is not used: go builds the program, and the line gives the reason', async () => {
  vi.stubGlobal('fetch', async () => new Response('no archive of Temporal'));
  program(
    'go',
    `if [ "$1" = env ]; then echo go1.26.8; exit; fi; echo "$GOSUMDB $GONOSUMDB" > ${directory}/verified; printf '#!/bin/sh\\necho built' > "$GOBIN/temporal"; /bin/chmod +x "$GOBIN/temporal"`,
  );
  program('tar', `echo "$@" > ${directory}/unpacked`);
  const env = { PATH: `${bin}:/usr/bin:/bin`, GOSUMDB: 'off', GONOSUMDB: '*' };
  vi.stubEnv('PATH', env.PATH);
  expect(await makeTemporal(join(directory, 'cache'), { ...env, PATH: bin })).toMatch(
    /^built \(built by go, since the download failed: the download has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}: it is damaged or not genuine, and was not used\)$/,
  );
  expect(existsSync(join(directory, 'unpacked'))).toBe(false);
  // Also if this machine's settings switch the check off.
  expect(readFileSync(join(directory, 'verified'), 'utf8')).toBe('sum.golang.org none\n');
});

test('without a new enough go and without PyPI, the missing program is reported, and no incomplete program is left', async () => {
  program('go', 'echo go1.19.8');
  program('python3', 'echo no network >&2; exit 1');
  vi.stubEnv('PATH', bin);
  await expect(makeTemporal(directory, { PATH: bin })).rejects.toMatchObject({
    name: 'MissingPrerequisites',
    missing: [{ what: expect.stringContaining('ENOTFOUND'), remedy: expect.stringContaining('golang') }],
  });
  expect(findTemporal(directory, { PATH: bin })).toBeUndefined();
});

test('a given address needs no program, and the set-up reports whether it answers', async () => {
  expect(await makeTemporal(directory, { PATH: bin, TEMPORAL_ADDRESS: '127.0.0.1:1' })).toBe(
    '127.0.0.1:1 does not answer now',
  );
});
