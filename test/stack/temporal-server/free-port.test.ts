/** Hunts a server that is started on a port in use. */

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { choosePort, isPortFree } from '../../../stack/temporal-server/free-port.ts';
import { startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

async function occupied(work: (port: number) => Promise<void>): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const address = server.address();
  try {
    if (typeof address !== 'object' || address === null) throw new Error('no port');
    await work(address.port);
  } finally {
    server.close();
  }
}

test('the first preferred port that is free is taken; one that is in use or given away is passed over', async () => {
  await occupied(async (inUse) => {
    expect(await isPortFree(inUse)).toBe(false);
    const free = await choosePort([inUse]);
    expect(free).not.toBe(inUse);
    expect(await choosePort([inUse, free])).toBe(free);
    expect(await choosePort([free], (port) => port === free)).not.toBe(free);
  });
});

/** Why: many tests start servers at once, and so do stacks of several users. */
test('a server whose port was taken after it was chosen starts on another one', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-taken-'));
  await occupied(async (inUse) => {
    const chosen = [inUse, await choosePort([])];
    const server = await startPrivateServer(dir, [], async () => chosen.shift() ?? 0);
    expect(server.address).not.toBe(`127.0.0.1:${inUse}`);
    expect(chosen).toEqual([]);
    await server.stop();
  });
  rmSync(dir, { recursive: true });
});

test('a server whose port was taken for a moment only starts again', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-taken-'));
  const held = createServer((connection) => connection.destroy());
  const port = await choosePort([]);
  await new Promise<void>((resolve) => held.listen(port, '127.0.0.1', () => resolve()));
  // Free again before the check, like a port that was an outgoing connection's.
  const watched = setInterval(() => {
    if (
      existsSync(join(dir, 'temporal.log')) &&
      readFileSync(join(dir, 'temporal.log'), 'utf8').includes('already in use')
    )
      held.close();
  }, 1);
  const server = await startPrivateServer(dir, [], async () => port);
  clearInterval(watched);
  expect(server.address).toBe(`127.0.0.1:${port}`);
  await server.stop();
  rmSync(dir, { recursive: true });
});
