/** Hunts a wheel that is not the pinned one, from an index that claims it is. With the real pip and a test's index. */

import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { readPins, withPinnedWheel } from '../../scripts/setup/wheels/pinned-wheels.mjs';

const NAME = 'parcel-1.0.0-py3-none-any.whl';
let directory: string;
let server: Server;
let wheel: Buffer;
let asked: string[] = [];

beforeAll(async () => {
  const made = mkdtempSync(join(tmpdir(), 'longhaul-wheel-'));
  const code = `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], 'w')
z.writestr('parcel.py', 'x = 1')
z.writestr('parcel-1.0.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: parcel\\nVersion: 1.0.0\\n')
z.writestr('parcel-1.0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr('parcel-1.0.0.dist-info/RECORD', '')
z.close()`;
  execFileSync('python3', ['-c', code, join(made, NAME)]);
  wheel = readFileSync(join(made, NAME));
  rmSync(made, { recursive: true });
  server = createServer((from, to) => {
    asked.push(from.url ?? '');
    if (from.url?.endsWith('.whl')) return void to.end(wheel);
    // The index gives no hash: a compromised index would give its own.
    to.setHeader('content-type', 'text/html').end(`<a href="/${NAME}">${NAME}</a>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-pins-'));
  asked = [];
  for (const [name, value] of Object.entries({
    PIP_INDEX_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple`,
    PIP_FIND_LINKS: '',
    PIP_CONFIG_FILE: '/dev/null',
    NO_PROXY: '127.0.0.1',
  }))
    vi.stubEnv(name, value);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const pin = (hash: string) => ({ line: `parcel==1.0.0 --hash=sha256:${hash}`, name: 'parcel==1.0.0', hashes: [hash] });

test('the pinned wheel is used', async () => {
  const hash = createHash('sha256').update(wheel).digest('hex');
  const used = await withPinnedWheel(pin(hash), directory, [], async (path, its) => [
    readFileSync(path).equals(wheel),
    its,
  ]);
  expect(used).toEqual([true, hash]);
  expect(readdirSync(directory)).toEqual([]);
});

test('another wheel is refused with both hashes, never used, and leaves nothing', async () => {
  const use = vi.fn();
  const given = withPinnedWheel(pin('0'.repeat(64)), directory, [], use);
  await expect(given).rejects.toMatchObject({
    name: 'HashMismatch',
    message: expect.stringMatching(/parcel==1\.0\.0.*SHA-256.*damaged or not genuine, and nothing of it is used/s),
  });
  expect(asked.some((url) => url.endsWith('.whl'))).toBe(true);
  expect(use).not.toHaveBeenCalled();
  expect(readdirSync(directory)).toEqual([]);
});

test('every wheel that the project downloads has an exact version and hashes', () => {
  const wheels = join(packageRoot, 'scripts', 'setup', 'wheels', 'pins');
  const engine = join(packageRoot, 'benchmarks', 'engine');
  const files = [
    ...readdirSync(wheels).map((name) => join(wheels, name)),
    join(engine, 'peer-packages.txt'),
    join(engine, 'peft-packages.txt'),
  ];
  expect(files.length).toBeGreaterThanOrEqual(6);
  for (const file of files) {
    const pins = readPins(file);
    expect(pins.length, file).toBeGreaterThan(0);
    for (const { name, hashes, line } of pins) {
      expect(name, line).toMatch(/^[a-z0-9._-]+==[0-9][0-9a-z.+]*$/);
      expect(hashes.length, line).toBeGreaterThan(0);
    }
  }
});
