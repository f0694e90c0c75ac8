/**
 * Hunts sandboxes of one task that do not reach each other, or that reach more than each other: real sandboxes that
 * share a network by its names. Not asserted: traffic; see test/sandboxes/isolation.test.ts for a sandbox alone.
 */
import { afterEach, expect, it } from 'vitest';
import type { Sandbox, SandboxNetwork } from '../../sandboxes/sandbox.ts';
import { callOf, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
const names = ['main', 'db'];
let made: string[] = [];

async function make(id: string, network?: SandboxNetwork): Promise<Sandbox> {
  made.push(id);
  return bench.provider.create(specOf(id, network && { network }));
}

afterEach(async () => {
  for (const id of made.toReversed()) await bench.provider.destroy(id);
  made = [];
});

const SERVER = `python3 -c 'import socket
s = socket.create_server(("0.0.0.0", 7000))
open("up", "w").close()
while True:
    c, _ = s.accept()
    c.sendall(b"from the db")
    c.close()' >/dev/null 2>&1 &
until [ -e up ]; do sleep 0.02; done`;
const ask = (host: string) =>
  `python3 -c 'import socket; print(socket.create_connection(("${host}", 7000), 5).recv(99).decode())' 2>&1 | tail -1`;
const answer = async (sandbox: Sandbox, host: string) => (await sh(sandbox, ask(host))).output.trim();

it('one reaches the other by its name, and a sandbox outside reaches neither', async () => {
  const [main, db, alone] = [
    await make('net', { names }),
    await make('net+db', { names, joins: 'net' }),
    await make('alone'),
  ];
  await db.exec(callOf(SERVER));
  expect(await answer(main, 'db')).toBe('from the db');
  expect(await answer(db, 'db')).toBe('from the db');
  expect(await answer(alone, '127.0.0.1')).toMatch(/refused/u);
  expect((await sh(main, 'cat /proc/net/dev')).output).not.toMatch(/^ *(?!lo:)\w+:/mu);
});

it('two tasks with the same names do not reach each other', async () => {
  const first = await make('one', { names });
  const db = await make('one+db', { names, joins: 'one' });
  const other = await make('two', { names });
  await make('two+db', { names, joins: 'two' });
  await db.exec(callOf(SERVER));
  expect([await answer(first, 'db'), await answer(other, 'db')]).toEqual([
    'from the db',
    expect.stringMatching(/refused/u),
  ]);
});

it('they share no files and no processes, and each ends alone', async () => {
  const main = await make('apart', { names });
  const db = await make('apart+db', { names, joins: 'apart' });
  await sh(db, 'echo secret > /workspace/data; echo secret > /tmp/data');
  expect((await sh(main, 'cat /workspace/data /tmp/data; ps -e | wc -l')).output).not.toContain('secret');
  await bench.provider.destroy('apart+db');
  expect((await sh(main, 'echo lives')).output).toBe('lives\n');
  await expect(bench.provider.connect('apart+db')).rejects.toMatchObject({ name: 'SandboxLost' });
});

it('one whose network is gone cannot be made, and leaves nothing', async () => {
  await expect(make('late+db', { names, joins: 'late' })).rejects.toMatchObject({ name: 'SandboxUnavailable' });
  expect(await bench.provider.list()).toEqual([]);
});
