/** Hunts defaults that contradict each other: fewer slots than live sandboxes make a queue look like a dead host. */

import { hostname, totalmem } from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import { LIMITS } from '../../tasks/swe-mini/problem.ts';
import { readMaxLiveSandboxes, readSandboxSettings, readWorkerSettings, sandboxesFor } from '../../workers/settings.ts';
import { stackHome } from '../../connection/stack-paths.ts';

afterEach(() => vi.unstubAllEnvs());

test.each(['', '7', '4096'])('every live sandbox has a slot, with LONGHAUL_MAX_SANDBOXES=%j', (given) => {
  vi.stubEnv('LONGHAUL_MAX_SANDBOXES', given);
  vi.stubEnv('LONGHAUL_SLOTS_AGENT_RUN', '');
  const { maxLiveSandboxes, slots } = readWorkerSettings();
  if (given !== '') expect(maxLiveSandboxes).toBe(Number(given));
  expect(slots['agent-run']).toBeGreaterThanOrEqual(maxLiveSandboxes);
});

test.each([
  [2, 23, 58],
  [2, 4, 10],
  [2, 1000, 64],
  [16, 64, 161],
  [1, 0.1, 1],
])(
  'by default %i cores and %d GiB take no more sandboxes than fit with all of them at their limits: %i',
  (cores, gib, most) => {
    expect(sandboxesFor(cores, gib * 2 ** 30)).toBe(most);
  },
);

test('without a setting, the memory of this machine limits the number of sandboxes', () => {
  vi.stubEnv('LONGHAUL_MAX_SANDBOXES', '');
  expect(readMaxLiveSandboxes() * LIMITS.memoryMiB).toBeLessThan(totalmem() / 2 ** 20);
});

test('an empty variable counts as not set: a worker has the home and the host of the stack', () => {
  vi.stubEnv('LONGHAUL_HOME', '');
  vi.stubEnv('LONGHAUL_HOST', '');
  expect(readWorkerSettings()).toMatchObject({ home: stackHome(), host: hostname() });
});

test('the provider is set once, and settings without effect are refused', () => {
  for (const name of [
    'LONGHAUL_SANDBOX',
    'LONGHAUL_DOCKER_IMAGE',
    'LONGHAUL_DOCKER_RUNTIME',
    'LONGHAUL_WARM_SANDBOXES',
  ])
    vi.stubEnv(name, '');
  expect(readSandboxSettings()).toEqual({ provider: 'auto' });
  vi.stubEnv('LONGHAUL_SANDBOX', 'podman');
  expect(() => readSandboxSettings()).toThrow(
    'LONGHAUL_SANDBOX: "podman" cannot be used; give one of auto, bubblewrap, docker',
  );
  vi.stubEnv('LONGHAUL_SANDBOX', 'bubblewrap');
  vi.stubEnv('LONGHAUL_DOCKER_RUNTIME', 'runsc');
  expect(() => readSandboxSettings()).toThrow(
    'LONGHAUL_DOCKER_RUNTIME: "runsc" cannot be used; it has no effect with LONGHAUL_SANDBOX=bubblewrap',
  );
  vi.stubEnv('LONGHAUL_SANDBOX', 'docker');
  vi.stubEnv('LONGHAUL_WARM_SANDBOXES', '0');
  expect(readSandboxSettings()).toEqual({ provider: 'docker', runtime: 'runsc', warm: 0 });
  vi.stubEnv('LONGHAUL_WARM_SANDBOXES', '-1');
  expect(() => readSandboxSettings()).toThrow('give a whole number of at least 0');
});
