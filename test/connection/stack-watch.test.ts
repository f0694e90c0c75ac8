/** Hunts a worker that works for another stack because that stack's server has its port. The servers are real. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { STACK_ID_VARIABLE } from '../../connection/stack-identity.ts';
import { StackWatch } from '../../connection/stack-watch.ts';
import { clusterId } from '../../stack/temporal-server/cluster-health.ts';
import { choosePort } from '../../stack/temporal-server/free-port.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';

const soon = { timeout: 60_000, interval: 100 };
const dir = mkdtempSync(join(tmpdir(), 'longhaul watch-'));
let port: number;
let server: PrivateServer;
let expected: { home: string; address: string; id: string };
const start = async (name: string) => {
  server = await startPrivateServer(join(dir, name), [], () => Promise.resolve(port));
};
beforeAll(async () => {
  port = await choosePort([]);
  await start('own');
  expected = { home: dir, address: server.address, id: await clusterId({ address: server.address }, 10_000) };
  await server.stop();
});
afterEach(async () => server.stop());
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('while its own server is down no activity starts, and all start when it is up again', async () => {
  await start('own');
  const onWrong = vi.fn();
  const watch = await StackWatch.begin(expected, onWrong);
  await watch.passes();
  const before = watch.passes();
  await server.stop();
  await vi.waitFor(() => expect(watch.passes()).not.toBe(before), soon);
  await start('own');
  await watch.passes();
  expect(onWrong).not.toHaveBeenCalled();
  await watch.close();
});

test("if another stack's server takes the port, no activity starts, and the worker is notified", async () => {
  await start('own');
  const wrong = Promise.withResolvers<unknown>();
  const watch = await StackWatch.begin(expected, wrong.resolve);
  const before = watch.passes();
  await server.stop();
  await vi.waitFor(() => expect(watch.passes()).not.toBe(before), soon);
  let passed = false;
  void watch.passes().then(() => {
    passed = true;
  });
  await start('other');
  expect(await wrong.promise).toMatchObject({ name: 'WrongStack', expected: expected.id, address: expected.address });
  expect(passed).toBe(false);
  await watch.close();
});

const PROGRAM = `const { connectWorker } = await import(process.argv[1]); await connectWorker(); console.log('connected'); setInterval(() => undefined, 60_000);`;
function worker() {
  const env = { ...process.env, TEMPORAL_ADDRESS: expected.address, [STACK_ID_VARIABLE]: expected.id };
  const module = join(import.meta.dirname, '../../connection/temporal-connection.ts');
  const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, module], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { child, ended: Promise.all([once(child, 'exit'), text(child.stderr)]) };
}

test('a worker process ends at once when its server is replaced by another', async () => {
  await start('own');
  const { child, ended } = worker();
  await once(child.stdout, 'data');
  await server.stop();
  await start('other');
  expect(await ended).toEqual([[3, null], expect.stringContaining(`stack ${expected.id} was expected`)]);
});

test('a worker process does not start on the server of another stack', async () => {
  await start('other');
  const [[code], said] = await worker().ended;
  expect([code, said]).toEqual([1, expect.stringContaining('WrongStack')]);
});
