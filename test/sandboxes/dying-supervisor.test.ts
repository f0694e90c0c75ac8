/**
 * Hunts a lost sandbox that is reported as unreachable: a dying process still accepts connections for a moment.
 * Asserted: the class of the error; not how long it takes.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SandboxLost } from '../../sandboxes/sandbox.ts';
import { SupervisorClient } from '../../sandboxes/supervisor/client.ts';
import { dialSocket } from '../../sandboxes/supervisor/connection.ts';
import { callOf } from './harness.ts';

let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-dying-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it('a supervisor that closes connections unread for a moment, and then stops listening, is lost', async () => {
  const path = join(dir, 'socket');
  let closed = 0;
  const server = createServer((socket) => {
    socket.on('error', () => undefined).destroy();
    closed += 1;
    if (closed === 1) setTimeout(() => server.close(), 30);
  });
  await new Promise<void>((resolve) => void server.listen(path, resolve));
  const client = new SupervisorClient('dying', dialSocket(path));
  await expect(client.exec(callOf('true'))).rejects.toBeInstanceOf(SandboxLost);
  expect(closed).toBeGreaterThanOrEqual(1);
  client.close();
});
