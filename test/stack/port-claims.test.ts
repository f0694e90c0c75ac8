/** Hunts a stack that takes the port of another one whose server is down, or avoids the port of a dead stack. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ownIdentity, type ProcessIdentity } from '../../scripts/setup/process-identity.mjs';
import { choosePorts } from '../../stack/embedded-server.ts';
import { claimPorts, isClaimedByOther } from '../../stack/port-claims.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { readStackState, type StackState, writeStackState } from '../../connection/stack-state.ts';
import { choosePort } from '../../stack/temporal-server/free-port.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-ports-'));
  vi.stubEnv('LONGHAUL_CACHE', join(dir, 'cache'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true });
});

const dead: ProcessIdentity = { pid: ownIdentity().pid, startTime: '1' };

/** A stack whose supervisor and server have ended, and whose worker is `worker`. */
function stackWith(name: string, worker: ProcessIdentity, ports: { temporal: number; ui: number }): StackState {
  const home = join(dir, name);
  const common = { restarts: 0, failedStarts: 0, since: '2026-01-01T00:00:00.000Z', log: 'x', digest: 'x' };
  const state: StackState = {
    format: 1,
    supervisor: dead,
    since: common.since,
    address: `127.0.0.1:${ports.temporal}`,
    namespace: 'default',
    ui: '',
    ports,
    phase: 'up',
    processes: [
      { ...common, name: 'temporal', process: dead, state: 'backing-off' },
      { ...common, name: 'init', process: worker, state: 'ready' },
    ],
  };
  writeStackState(stackPaths(home).state, state);
  claimPorts(home, [ports.temporal, ports.ui]);
  return state;
}

/** Without the UI's own address, which is hidden and chosen again. */
const withHidden = (ports: { readonly temporal: number; readonly ui: number }) => ({
  ...ports,
  behind: { host: expect.stringMatching(/^127\./) as string, port: expect.any(Number) as number },
});

const twoPorts = async () => {
  const temporal = await choosePort([]);
  return { temporal, ui: await choosePort([], (port) => port === temporal) };
};

test('the ports of a stack of which a worker lives are passed over by others, and kept for itself', async () => {
  const ports = await twoPorts();
  const state = stackWith('first', ownIdentity(), ports);
  expect(isClaimedByOther(join(dir, 'second'), ports.temporal)).toBe(true);
  const other = await choosePorts(join(dir, 'second'), state);
  expect(Object.values(other)).not.toContain(ports.temporal);
  expect(Object.values(other)).not.toContain(ports.ui);
  expect(await choosePorts(join(dir, 'first'), state)).toEqual(withHidden(ports));
});

test('nobody is kept from the ports of a stack that is gone, or that has other ports by now', async () => {
  const [gone, moved] = [await twoPorts(), await twoPorts()];
  const state = stackWith('gone', dead, gone);
  stackWith('moved', ownIdentity(), moved);
  stackWith('moved', ownIdentity(), await twoPorts());
  expect(await choosePorts(join(dir, 'second'), state)).toEqual(withHidden(gone));
  expect(isClaimedByOther(join(dir, 'second'), moved.temporal)).toBe(false);
});

// Like the stack of another user of the same cache, whose home we cannot read; here its state is a folder.
test('the port of a stack that we may not look at is passed over, and keeps nobody from coming up', async () => {
  const ports = await twoPorts();
  const state = stackWith('closed', ownIdentity(), ports);
  const file = stackPaths(join(dir, 'closed')).state;
  rmSync(file);
  mkdirSync(file);
  const other = await choosePorts(join(dir, 'second'), state);
  expect(Object.values(other)).not.toContain(ports.temporal);
});

test.each(['', '{"format": 1, "supervi', 'null'])('a state of which a lost machine left %j is none', async (left) => {
  const ports = await twoPorts();
  const state = stackWith('torn', ownIdentity(), ports);
  writeFileSync(stackPaths(join(dir, 'torn')).state, left);
  expect(readStackState(stackPaths(join(dir, 'torn')).state)).toBeUndefined();
  expect(await choosePorts(join(dir, 'second'), state)).toEqual(withHidden(ports));
});
