/** Hunts a benchmark whose document lacks a field that scripts read, or that silently leaves out a provider. */

import { expect, test } from 'vitest';
import { benchSandbox } from '../../../benchmarks/sandbox.ts';
import { benchSnapshot } from '../../../benchmarks/snapshot.ts';
import { dockerForTests } from '../../support/containers/docker-daemon.ts';

test('every provider is measured, the first at the top', async () => {
  process.env['DOCKER_HOST'] = (await dockerForTests()).host;
  const options = { sandboxes: 1, commands: 3, concurrency: 2 };
  const document = await benchSandbox({ ...options, providers: ['bubblewrap', 'docker'] });
  expect(document.absent).toEqual([]);
  expect(document.providers.map(({ provider }) => provider)).toEqual(['bubblewrap', 'docker']);
  expect(document.provider).toBe('bubblewrap');
  for (const one of [document, ...document.providers])
    for (const value of [
      one.coldStartMs,
      one.leaseMs,
      one.execMs.p50,
      one.execMs.p95,
      one.digestMs,
      one.execsPerSecond,
      one.together.execMs.max,
    ])
      expect(value).toBeGreaterThan(0);
});

test('snapshots are measured, and what they make is compared', async () => {
  const env = { ...process.env, LONGHAUL_SANDBOX: 'bubblewrap' };
  const measured = await benchSnapshot([1, 20], env, () => undefined);
  expect(measured).toMatchObject([
    { megabytes: 1, pieces: 1 },
    { megabytes: 20, pieces: expect.any(Number) as number },
  ]);
  for (const { takeSeconds, restoreSeconds } of measured)
    expect(Math.min(takeSeconds, restoreSeconds)).toBeGreaterThan(0);
});

test('a missing provider is named with the reason, and is an error if it was requested alone', async () => {
  process.env['DOCKER_HOST'] = 'unix:///nonexistent/docker.sock';
  const options = { sandboxes: 1, commands: 1, concurrency: 1 };
  const document = await benchSandbox({ ...options, providers: ['bubblewrap', 'docker'] });
  expect(document.absent).toMatchObject([
    { provider: 'docker', reason: expect.stringContaining('no Docker daemon answers') },
  ]);
  await expect(benchSandbox({ ...options, providers: ['docker'] })).rejects.toThrow('no Docker daemon answers');
});
