/**
 * Hunts a client that finds another folder's stack on the port of its own, and reads or steers that stack's run of the
 * same name. Servers and supervisors are real; the workers are the fixture's and do no work.
 */

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { whileAway } from '../../../client/while-away.ts';
import { Longhaul } from '../../../client/longhaul.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { ensureStack } from '../../../stack/ensure-stack.ts';
import { readStackState } from '../../../connection/stack-state.ts';
import { stopStack } from '../../../stack/stop-stack.ts';
import { choosePort } from '../../../stack/temporal-server/free-port.ts';
import { FixtureStack, supervisorProgram } from '../../stack/fixtures/fixture-stack.ts';

const soon = { timeout: 90_000, interval: 200 };
const dir = mkdtempSync(join(tmpdir(), 'longhaul wrong stack-'));
const stackIn = (name: string) => {
  mkdirSync(join(dir, name));
  return new FixtureStack({ init: [] }, true, join(dir, name));
};
const [a, b, copy] = [stackIn('a'), stackIn('b'), new FixtureStack({ init: [] }, true, join(dir, 'copy'))];
const up = (stack: FixtureStack) => ensureStack({ home: stack.home, env: stack.env, program: supervisorProgram });
const down = (stack: FixtureStack) => stopStack({ home: stack.home, deadlineMs: 5_000 });
/** A run that no worker runs. */
const begin = ({ client }: Longhaul) =>
  client.workflow.start('train', { taskQueue: 'none', workflowId: 'train/same', args: [] });

let address: string;
let ofA: Longhaul;
beforeAll(async () => {
  a.remember({ temporal: await choosePort([]), ui: await choosePort([]) });
  ({ address } = await up(a));
  ofA = await Longhaul.connect({ home: a.home });
  await begin(ofA);
});
afterAll(async () => {
  await ofA?.close();
  for (const stack of [a, b, copy]) await stack.end();
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

/** B has the port that was A's, and A is down. */
async function takePort(): Promise<void> {
  await down(a);
  if (b.list.status === 'up') return;
  b.remember(readStackState(join(a.home, 'stack.json'))?.ports ?? { temporal: 0, ui: 0 });
  expect((await up(b)).address).toBe(address);
}

async function commandLine(args: readonly string[], env: NodeJS.ProcessEnv) {
  let err = '';
  const around = {
    out: () => undefined,
    err: (text: string) => {
      err += text;
    },
    cwd: dir,
    signal: new AbortController().signal,
  };
  return { exitCode: await runCommandLine(args, { ...around, env }), err };
}

test('a client continues when its own server is killed and restarts', async () => {
  const run = ofA.run('same');
  expect(await run.isRunning()).toBe(true);
  process.kill(a.process('temporal').pid ?? 0, 'SIGKILL');
  await vi.waitFor(
    () =>
      expect(a.process('temporal')).toMatchObject({
        state: 'ready',
        restarts: expect.toSatisfy((n: number) => n >= 1) as number,
      }),
    soon,
  );
  expect(await whileAway(() => run.isRunning())).toBe(true);
});

test("another stack's server at the port is refused by name, and its run of the same name is neither read nor steered", async () => {
  const { stackId } = readStackState(join(a.home, 'stack.json')) ?? {};
  await takePort();
  const ofB = await Longhaul.connect({ home: b.home });
  await begin(ofB);

  const run = ofA.run('same');
  const wrong = {
    name: 'WrongStack',
    address,
    home: a.home,
    expected: stackId,
    answered: readStackState(join(b.home, 'stack.json'))?.stackId,
  };
  await expect(run.isRunning()).rejects.toMatchObject(wrong);
  await expect(run.cancel()).rejects.toMatchObject(wrong);
  await expect(run.result()).rejects.toMatchObject(wrong);
  await expect(run.steps().next()).rejects.toMatchObject(wrong);
  await expect(
    ofA.train({ run: 'same', policy: { base: 'starter' }, task: { name: 'swe-mini' } }),
  ).rejects.toMatchObject(wrong);
  expect(wrong.answered).not.toBe(stackId);
  const { status, historyLength } = await ofB.client.workflow.getHandle('train/same').describe();
  expect([status.name, historyLength]).toEqual(['RUNNING', 2]);
  await expect(Longhaul.connect({ home: a.home })).rejects.toMatchObject({
    name: 'Unreachable',
    message: expect.stringContaining('is not up'),
  });
  await ofB.close();
});

test('where its own stack comes back on another port, the same client follows it', async () => {
  await takePort();
  expect((await up(a)).address).not.toBe(address);
  expect(await whileAway(() => ofA.run('same').isRunning())).toBe(true);
});

test('a copy of its folder is another stack, though the database is the same', async () => {
  await down(a);
  cpSync(a.home, copy.home, { recursive: true });
  await up(copy);
  expect(readStackState(join(copy.home, 'stack.json'))?.ports).toEqual(
    readStackState(join(a.home, 'stack.json'))?.ports,
  );
  await expect(ofA.run('same').isRunning()).rejects.toMatchObject({
    name: 'WrongStack',
    message: expect.stringContaining('a copy of it answered'),
  });
  await down(copy);
});

test('a folder whose database was made anew is another stack', async () => {
  await down(a);
  for (const file of ['temporal.db', 'temporal.db-wal', 'temporal.db-shm']) rmSync(join(a.home, file), { force: true });
  await up(a);
  await expect(ofA.run('same').isRunning()).rejects.toMatchObject({ name: 'WrongStack' });
});

test('without an address and a stack of the folder nothing is connected to, whoever listens where Temporal does by custom', async () => {
  const listener = createServer();
  await new Promise<void>((resolve) => {
    // Where another process has it, that one listens.
    listener.once('error', () => resolve());
    listener.listen(7233, '127.0.0.1', resolve);
  });
  const ways =
    /is not up\. Start the stack: npx longhaul up --detach\. Or name a cluster: by TEMPORAL_ADDRESS, by a Temporal profile, or in a program by connect\(\{ address \}\)/;
  try {
    await expect(Longhaul.connect({}, { env: {}, cwd: dir })).rejects.toMatchObject({
      name: 'Unreachable',
      message: expect.stringMatching(ways),
    });
    const { exitCode, err } = await commandLine(['pause', 'same'], { LONGHAUL_HOME: join(dir, 'never') });
    expect([exitCode, err]).toEqual([3, expect.stringMatching(ways)]);
  } finally {
    listener.close();
  }
});
