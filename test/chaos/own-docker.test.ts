/** Hunts a daemon that does not restart after its kill, or that the command does not stop. */
import Docker from 'dockerode';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { answers, mountsBelow, OwnDocker, ownDockerUnlessGiven } from '../../chaos/own-docker.ts';
import { identify, isAlive, killProcess } from '../../sandboxes/supervised/process-identity.ts';

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
});

it('is not started where another one is named', async () => {
  expect(await ownDockerUnlessGiven(join(dir, 'none'), { DOCKER_HOST: 'unix:///run/other.sock' })).toBeUndefined();
  expect(existsSync(join(dir, 'none'))).toBe(false);
});

/** A program with the daemon's name that runs `script`. */
function standIn(name: string, script: string): NodeJS.ProcessEnv {
  const bin = join(dir, name);
  mkdirSync(bin);
  writeFileSync(join(bin, 'dockerd'), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, 'dockerd'), 0o755);
  return { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
}

it.runIf(process.getuid?.() === 0)(
  'one that ends at once is told of with its log, and one that never answers is ended',
  async () => {
    const ends = OwnDocker.start(join(dir, 'ends'), standIn('ending', 'echo "no room for a bridge" >&2; exit 3'));
    await expect(ends).rejects.toThrow(/ended \(exit code 3\).*Its log ends:\nno room for a bridge/su);
    const pid = join(dir, 'pid');
    const silent = OwnDocker.start(
      join(dir, 'silent'),
      standIn('being-silent', `echo $$ > ${pid}; exec sleep 600`),
      500,
    );
    await expect(silent).rejects.toThrow('does not answer');
    expect(identify(Number(readFileSync(pid, 'utf8')))).toBeUndefined();
    expect([existsSync(join(dir, 'ends')), existsSync(join(dir, 'silent'))]).toEqual([false, false]);
  },
);

it('a daemon that takes connections and says nothing does not answer', async () => {
  const socketPath = join(dir, 'mute.sock');
  const server = createServer().listen(socketPath);
  try {
    expect(await answers(new Docker({ socketPath }), 100)).toBe(false);
  } finally {
    server.close();
  }
});

it('finds what is mounted below a folder whose name has spaces', () => {
  const line = (point: string) => `29 1 0:25 / ${point} rw shared:1 - tmpfs tmpfs rw`;
  const text = ['/a\\040b/data', '/a\\040b/data/x\\011y', '/a\\040bc', '/a'].map(line).join('\n');
  expect(mountsBelow('/a b', text)).toEqual(['/a b/data/x\ty', '/a b/data']);
});
