/** Hunts a cluster that ignores priority keys without a warning. The server is real. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { examineTemporal, noteOnPriorities } from '../../../cli/doctor/temporal.ts';
import { startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

it.each(['1.29.1', 'v1.30.4', '1.9.0'])('a server %s has to be told to look at priority keys', (version) => {
  expect(noteOnPriorities(version)).toEqual([expect.stringMatching(/matching\.useNewMatcher/u)]);
});

it.each(['1.31.0', '1.40.2-rc.1', '2.0.0', '', 'unknown'])('a server %s is not warned of', (version) => {
  expect(noteOnPriorities(version)).toEqual([]);
});

it('doctor says it of a cluster that was named', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-priorities-'));
  const server = await startPrivateServer(dir);
  try {
    const found = await examineTemporal({ TEMPORAL_ADDRESS: server.address });
    expect(found).toMatchObject({
      state: 'ok',
      found: expect.stringMatching(/^127\.0\.0\.1:\d+, namespace default, server 1\.29\.\d+: .*useNewMatcher/u),
    });
  } finally {
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
