/** Hunts a choice of provider that another worker would not make, or that leaves out what was asked for. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openSandboxProvider } from '../../workers/sandbox-provider.ts';
import { dockerForTests } from '../support/docker-daemon.ts';

let sandboxDir: string;

beforeEach(async () => {
  const { socketPath } = (await dockerForTests()).modem as unknown as { readonly socketPath: string };
  vi.stubEnv('DOCKER_HOST', `unix://${socketPath}`);
  sandboxDir = join(mkdtempSync(join(tmpdir(), 'longhaul-choice-')), 'sandboxes');
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(join(sandboxDir, '..'), { recursive: true, force: true });
});

test('the fastest that works is chosen, and Docker where bubblewrap does not', async () => {
  expect((await openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto' } })).name).toBe('bubblewrap');
  expect((await openSandboxProvider({ sandboxDir, sandbox: { provider: 'docker' } })).name).toBe('docker');
  vi.stubEnv('PATH', '/nonexistent');
  vi.stubEnv('CC', '/usr/bin/cc');
  expect((await openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto' } })).name).toBe('docker');
});

test('a runtime or an image is never left out by a choice of something else', async () => {
  expect((await openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto', image: 'any/image:1' } })).name).toBe('docker');
  const gone = openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto', runtime: 'no-such-runtime' } });
  await expect(gone).rejects.toThrow('runtime no-such-runtime: the Docker daemon has');
});

test('where neither is there, both are named', async () => {
  vi.stubEnv('PATH', '/nonexistent');
  vi.stubEnv('DOCKER_HOST', 'unix:///nonexistent/docker.sock');
  await expect(openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto' } })).rejects.toThrow(
    /nothing isolates sandboxes here: bubblewrap does not work, and no Docker daemon answers .*; see: npx longhaul doctor/u,
  );
});
