/** Hunts a server that is started on a port that somebody has. */

import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { choosePort, isPortFree } from '../../../workers/temporal-server/free-port.ts';

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
