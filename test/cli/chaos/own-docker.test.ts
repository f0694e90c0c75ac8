/** Hunts a daemon that does not come back after its kill, or that the command leaves behind. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { OwnDocker, ownDockerUnlessGiven } from '../../../cli/chaos/own-docker.ts';
import { identify, isAlive, killProcess } from '../../../sandboxes/supervised/process-identity.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-own-docker-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it('is killed, started again and stopped, and nothing of it stays', async () => {
  const own = await OwnDocker.start(join(dir, 'docker'), process.env);
  const first = identify(own.pid)!;
  try {
    killProcess(first);
    await expect.poll(() => isAlive(first)).toBe(false);
    const pid = await own.startAgain(Date.now() + 60_000);
    expect(pid).not.toBe(first.pid);
    expect((await own.docker.ping()).toString()).toBe('OK');
  } finally {
    await own.stop();
  }
  expect([identify(own.pid), existsSync(join(dir, 'docker'))]).toEqual([undefined, false]);
}, 180_000);

it('is not started where another one is named', async () => {
  expect(await ownDockerUnlessGiven(join(dir, 'none'), { DOCKER_HOST: 'unix:///run/other.sock' })).toBeUndefined();
  expect(existsSync(join(dir, 'none'))).toBe(false);
});
