/** Hunts a choice of provider that differs between workers, changes on a busy machine, or ignores a setting. */

import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { which } from '../../scripts/setup/command.mjs';
import { choiceFile } from '../../workers/sandbox-choice.ts';
import { openSandboxProvider } from '../../workers/sandbox-provider.ts';
import type { SandboxSettings } from '../../workers/settings.ts';
import { eventually, openDockerBench, specOf } from '../sandboxes/harness.ts';
import { dockerForTests } from '../support/containers/docker-daemon.ts';

const AUTO: SandboxSettings = { provider: 'auto' };
// Building the base image takes minutes the first time, more than a test's limit.
await openDockerBench();
let home: string;
let sandboxDir: string;

beforeEach(async () => {
  vi.stubEnv('DOCKER_HOST', (await dockerForTests()).host);
  home = mkdtempSync(join(tmpdir(), 'longhaul-choice-'));
  sandboxDir = join(home, 'sandboxes');
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true, force: true });
});

const open = (sandbox: SandboxSettings = AUTO, withinMs?: number) =>
  openSandboxProvider({ sandboxDir, sandbox }, withinMs);
const nameOf = async (sandbox?: SandboxSettings, withinMs?: number) => (await open(sandbox, withinMs)).name;
const written = () =>
  JSON.parse(readFileSync(choiceFile(sandboxDir), 'utf8')) as {
    readonly provider: string;
    readonly by: string;
    readonly at: string;
  };

function withoutBubblewrap(): void {
  vi.stubEnv('PATH', '/nonexistent');
  vi.stubEnv('CC', '/usr/bin/cc');
}

/** Replaces bubblewrap: runs `script` for a trial, and bubblewrap itself otherwise. */
function insteadOfBubblewrap(script: string): void {
  const bin = join(home, 'bin');
  mkdirSync(bin);
  writeFileSync(
    join(bin, 'bwrap'),
    `#!/bin/sh\ncase "$*" in *'--unshare-all true') ${script};; esac\nexec ${which('bwrap', process.env)} "$@"\n`,
  );
  chmodSync(join(bin, 'bwrap'), 0o755);
  vi.stubEnv('PATH', `${bin}:${process.env['PATH'] ?? ''}`);
}

/** The provider's name in a new process, which reports in a folder that it is about to ask. */
async function nameInProcess(asking: string, withinMs: number): Promise<string> {
  const program = `
    import { writeFileSync } from 'node:fs';
    import { openSandboxProvider } from '${join(import.meta.dirname, '../../workers/sandbox-provider.ts')}';
    const [sandboxDir, asking, withinMs] = process.argv.slice(1);
    writeFileSync(asking + '/' + process.pid, '');
    const provider = await openSandboxProvider({ sandboxDir, sandbox: { provider: 'auto' } }, Number(withinMs));
    process.stdout.write(provider.name);`;
  const worker = spawn(process.execPath, ['--input-type=module', '-e', program, sandboxDir, asking, String(withinMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return (await worker.stdout.toArray()).join('');
}

describe('a home that has chosen nothing', () => {
  test('gets the fastest that works, and records it', async () => {
    expect(await nameOf()).toBe('bubblewrap');
    expect(written()).toMatchObject({
      provider: 'bubblewrap',
      by: 'LONGHAUL_SANDBOX=auto',
      at: expect.stringMatching(/^\d{4}-.*Z$/u),
    });
  });

  test('gets Docker where bubblewrap does not work', async () => {
    withoutBubblewrap();
    expect(await nameOf()).toBe('docker');
    expect(written()).toMatchObject({ provider: 'docker', by: 'LONGHAUL_SANDBOX=auto' });
  });

  test('a runtime or an image is never left out by a choice of something else', async () => {
    expect(await nameOf({ provider: 'auto', image: 'any/image:1' })).toBe('docker');
    expect(written()).toMatchObject({ provider: 'docker', by: 'LONGHAUL_DOCKER_IMAGE=any/image:1' });
    await expect(open({ provider: 'auto', runtime: 'no-such-runtime' })).rejects.toThrow(
      /^runtime no-such-runtime: the Docker daemon has/u,
    );
  });

  test('where neither is there, both are named, and nothing is chosen', async () => {
    vi.stubEnv('PATH', '/nonexistent');
    vi.stubEnv('DOCKER_HOST', 'unix:///nonexistent/docker.sock');
    await expect(open()).rejects.toThrow(
      /^no sandbox provider works here: bubblewrap does not work, and no Docker daemon answers .*; run: npx longhaul doctor/u,
    );
    expect(existsSync(choiceFile(sandboxDir))).toBe(false);
  });

  test('a daemon of another machine is refused by name before it is asked', async () => {
    vi.stubEnv('DOCKER_HOST', 'tcp://192.0.2.7:2375');
    const refused =
      /^DOCKER_HOST: "tcp:\/\/192\.0\.2\.7:2375" cannot be used; it is another machine.*unix:\/\/\/var\/run\/docker\.sock/u;
    await expect(open({ provider: 'docker' })).rejects.toMatchObject({
      name: 'SandboxImpossible',
      message: expect.stringMatching(refused),
    });
    expect(await nameOf()).toBe('bubblewrap');
  });

  test('is given one choice by processes that start at once, though bubblewrap is late for all but the first', async () => {
    const [tried, asking] = [join(home, 'tried'), join(home, 'asking')];
    mkdirSync(asking);
    // The first trial ends when the others have started theirs.
    insteadOfBubblewrap(
      `mkdir ${tried} 2>/dev/null || exec sleep 60; until [ $(ls ${asking} | wc -l) = 3 ]; do sleep 0.1; done; sleep 0.5`,
    );
    const first = nameInProcess(asking, 60_000);
    await eventually('the first one tries', () => (existsSync(tried) ? true : undefined));
    const others = [nameInProcess(asking, 1_000), nameInProcess(asking, 1_000)];
    expect(await Promise.all([first, ...others])).toEqual(['bubblewrap', 'bubblewrap', 'bubblewrap']);
  });
});

describe('a home that has chosen', () => {
  test('keeps it on a machine so busy that a trial is late, and where it was chosen by name', async () => {
    await open();
    insteadOfBubblewrap('exec sleep 60');
    expect(await nameOf(AUTO, 200)).toBe('bubblewrap');
    await open({ provider: 'docker' });
    expect(await nameOf()).toBe('docker');
  });

  test('is not replaced if its provider does not work now: the error says what was chosen, when, and how to choose again', async () => {
    await open();
    const { at } = written();
    withoutBubblewrap();
    await expect(open()).rejects.toMatchObject({
      name: 'SandboxUnavailable',
      message: `sandboxes of this home are made by bubblewrap, chosen on ${at} by LONGHAUL_SANDBOX=auto, which does not work now: bubblewrap does not work; run: npx longhaul doctor; to choose again, set LONGHAUL_SANDBOX=docker, or remove ${choiceFile(sandboxDir)} when no sandbox of bubblewrap runs`,
    });
    expect(await nameOf({ provider: 'docker' })).toBe('docker');
    expect(written()).toMatchObject({ provider: 'docker', by: 'LONGHAUL_SANDBOX=docker' });
    expect(await nameOf()).toBe('docker');
    vi.stubEnv('DOCKER_HOST', 'unix:///nonexistent/docker.sock');
    await expect(open()).rejects.toThrow(
      /made by docker, chosen on .* by LONGHAUL_SANDBOX=docker, which does not work now: no Docker daemon answers .*set LONGHAUL_SANDBOX=bubblewrap/u,
    );
  });

  test('is told that a file that holds something else is to be removed', async () => {
    writeFileSync(choiceFile(sandboxDir), '{"provider":"podman"}');
    await expect(open()).rejects.toThrow(
      `${choiceFile(sandboxDir)}: "{\\"provider\\":\\"podman\\"}" cannot be used; remove the file`,
    );
  });
});

describe.each([
  ['bubblewrap', 'docker'],
  ['docker', 'bubblewrap'],
] as const)('a home with sandboxes of %s', (one, other) => {
  test(`is refused ${other} while they live, and given it when they have ended, without their remains`, async () => {
    const provider = await open({ provider: one });
    await provider.create(specOf('left', { ttlSeconds: 1 }));
    await provider.create(specOf('held', { ttlSeconds: 300 }));
    await eventually('one of them ends', async () => ((await provider.ended()).includes('left') ? true : undefined));
    await expect(open({ provider: other })).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'LONGHAUL_SANDBOX',
      value: other,
      message: expect.stringMatching(
        new RegExp(
          `this home has ${one}, chosen on .*, and 1 of its sandboxes are live \\(held\\): cancel what they belong to, .* or set LONGHAUL_SANDBOX=${one}$`,
          'u',
        ),
      ),
    });
    expect(await nameOf()).toBe(one);
    await provider.destroy('held');
    expect(await nameOf({ provider: other })).toBe(other);
    expect(await provider.list()).toEqual([]);
    expect(await nameOf()).toBe(other);
  });
});

test('a home whose daemon does not answer does not switch providers: its containers may be live', async () => {
  const provider = await open({ provider: 'docker' });
  await provider.create(specOf('held'));
  const daemon = process.env['DOCKER_HOST'] ?? '';
  vi.stubEnv('DOCKER_HOST', 'unix:///nonexistent/docker.sock');
  await expect(open({ provider: 'bubblewrap' })).rejects.toThrow(
    `cannot find out whether its sandboxes in ${sandboxDir}-docker are live (no Docker daemon answers`,
  );
  vi.stubEnv('DOCKER_HOST', daemon);
  await provider.destroy('held');
});
