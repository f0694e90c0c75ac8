/** Hunts a worker process that outlives its fatal error, or ends with a code that its supervisor reads as success. */

import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { expect, test } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { readLogLine } from '../../workers/logs/readable-log.ts';

const lastLine = (text: string) => readLogLine(text.trimEnd().split('\n').at(-1) ?? '');

test('without Temporal a worker ends with 1 and names the address', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  const env = { ...process.env, TEMPORAL_ADDRESS: `127.0.0.1:${port}` };
  const main = join(packageRoot, 'workers', 'main.ts');
  const { status, stderr } = spawnSync(process.execPath, [main, '--role', 'init'], {
    env,
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(lastLine(stderr)).toMatchObject({
    level: 'fatal',
    role: 'init',
    message: expect.stringContaining(`Temporal at 127.0.0.1:${port} is not reachable`),
    error: { class: 'Unreachable', stack: expect.stringContaining('connection/temporal-connection.ts') },
  });
  expect(status).toBe(1);
});

test('a fatal error after the connection was made ends the process with 1 too', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-worker-'));
  const server = await startPrivateServer(directory);
  try {
    const env = {
      ...process.env,
      TEMPORAL_ADDRESS: server.address,
      LONGHAUL_HOME: directory,
      LONGHAUL_SLOTS_INIT: 'many',
    };
    const main = join(packageRoot, 'workers', 'main.ts');
    const { status, signal, stderr } = spawnSync(process.execPath, [main, '--role', 'init'], {
      env,
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect(lastLine(stderr)).toMatchObject({
      level: 'fatal',
      message: expect.stringContaining('LONGHAUL_SLOTS_INIT: "many" cannot be used'),
      error: { class: 'UserInputError' },
    });
    expect([status, signal]).toEqual([1, null]);
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});
