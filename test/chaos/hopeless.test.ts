/** Hunts a `chaos` that waits forever for a run that cannot start, or that ended before it could be shortened. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { RunEnd } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { Journal } from '../../chaos/journal.ts';
import { shorten, untilBegun } from '../../chaos/run-chaos.ts';
import { WaitingClient } from '../../chaos/waiting-client.ts';
import { Longhaul } from '../../client/longhaul.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-hopeless-'));
const store = openSqliteStore(join(dir, 'store'));
afterAll(async () => {
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});
const never = new AbortController().signal;

it('a program that is refused again and again is told of with what it said', async () => {
  const client = new WaitingClient(['train', 'nowhere.yaml'], dir, {
    ...process.env,
    LONGHAUL_HOME: join(dir, 'home'),
  });
  client.start();
  try {
    await expect(untilBegun({ journal: new Journal(store, 'disturbed'), client, dir }, never)).rejects.toThrow(
      /does not start: its program failed 3 times.*nowhere\.yaml/su,
    );
  } finally {
    client.kill();
  }
});

it('a run that has ended is not asked to end sooner', async () => {
  await store.putOnce<RunEnd>(keys.runEnd('disturbed'), {
    status: 'failed',
    finishedAt: '2026-01-01T00:00:00.000Z',
    message: 'all was lost',
  });
  const server = await startPrivateServer(join(dir, 'temporal'));
  const longhaul = await Longhaul.connect({ address: server.address });
  try {
    await expect(shorten({ run: longhaul.run('disturbed'), longhaul, store }, never)).rejects.toThrow(
      'run disturbed failed before it had recovered from its kills: all was lost',
    );
  } finally {
    await longhaul.close();
    await server.stop();
  }
});
