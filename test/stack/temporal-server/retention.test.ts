/**
 * Hunts an unbounded database: histories that are kept for another time than was set, on a real server. Not asserted:
 * that they are removed then, which takes at least an hour.
 */

import { Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readRetention, setRetention } from '../../../stack/temporal-server/retention.ts';
import { startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

test.each([
  [undefined, 24],
  ['', 24],
  ['1h', 1],
  ['36h', 36],
  ['3d', 72],
  [' 2d ', 48],
])('%j is %i hours', (text, hours) => {
  expect(readRetention({ LONGHAUL_RETENTION: text })).toBe(hours);
});

test.each(['1', '0h', '0d', '-1d', '1.5d', '30m', '1w', '40000d'])('%j is bad input', (text) => {
  expect(() => readRetention({ LONGHAUL_RETENTION: text })).toThrow('LONGHAUL_RETENTION');
});

async function kept(address: string): Promise<number> {
  const connection = await Connection.connect({ address });
  try {
    const { config } = await connection.workflowService.describeNamespace({ namespace: 'default' });
    return Number(config?.workflowExecutionRetentionTtl?.seconds);
  } finally {
    await connection.close();
  }
}

test('the server keeps histories for as long as it is told, the least included, and remembers it over a restart', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-retention-'));
  let server = await startPrivateServer(dir);
  try {
    expect(await kept(server.address)).toBe(readRetention({}) * 3600);
    for (const hours of [72, 72, 1]) {
      await setRetention(server, 'default', hours, 30_000);
      expect(await kept(server.address)).toBe(hours * 3600);
    }
    await server.stop();
    server = await startPrivateServer(dir);
    expect(await kept(server.address)).toBe(3600);
  } finally {
    await server.stop();
    rmSync(dir, { recursive: true });
  }
});
