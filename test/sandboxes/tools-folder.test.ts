/**
 * Hunts folders of tools that a sandbox can write, that are mounted although nobody allowed them, or that are reached by
 * a link: real bubblewrap sandboxes; in docker/ and podman/ the same in containers.
 * Not asserted: what a policy does with a program that it finds there; it runs with the sandbox's rights.
 */

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from 'vitest';

import type { SandboxSpec } from '../../sandboxes/sandbox.ts';
import { readPlaces, checkToolsPlace } from '../../workers/allowed/places.ts';
import { openBench, sh, specOf } from './harness.ts';

const folder = mkdtempSync(join(tmpdir(), 'longhaul-tools-'));
chmodSync(folder, 0o755);
const at = (name: string): string => join(folder, name);
for (const name of ['allowed/kit', 'secret', 'project/.longhaul/store', 'project/kit', 'closed/kit'])
  mkdirSync(at(name), { recursive: true });
writeFileSync(at('allowed/kit/greet.py'), 'def greet(): return "hello from the kit"\n');
writeFileSync(at('allowed/kit/run'), '#!/bin/bash\necho it ran\n', { mode: 0o755 });
writeFileSync(at('secret/key'), 'secret\n');
symlinkSync(at('secret'), at('allowed/link'));
symlinkSync(at('secret/key'), at('allowed/kit/leak'));
symlinkSync(at('allowed/kit'), at('way-in'));
chmodSync(at('closed'), 0o700);

const env = { LONGHAUL_HOME: at('project/.longhaul'), LONGHAUL_PLACES: at('allowed') };
const places = readPlaces(env, at('project'));
const { provider, kind } = await openBench({ guardTools: (path) => checkToolsPlace(places, path) });
/** Bubblewrap has none. */
const profiles = kind === 'docker' ? (['strict', 'swe'] as const) : (['none'] as const);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let serial = 0;
const make = (toolsFolder: string, changes: Partial<SandboxSpec> = {}) => {
  serial += 1;
  return provider.create(specOf(`tools-${serial}`, { toolsFolder, ...changes }));
};

describe('a folder of tools', () => {
  it('is seen at /opt/tools: its packages are imported, its programs run', async () => {
    const sandbox = await make(at('allowed/kit'), { env: { PYTHONPATH: '/opt/tools' } });
    const { output } = await sh(sandbox, 'python3 -c "import greet; print(greet.greet())"; /opt/tools/run');
    expect(output).toBe('hello from the kit\nit ran\n');
  });

  it.each(profiles)('is never written (profile %s): no file made, changed, removed or replaced', async (profile) => {
    const sandbox = await make(at('allowed/kit'), profile === 'none' ? {} : { profile });
    expect((await sh(sandbox, '/opt/tools/run')).output).toBe('it ran\n');
    const attacks = [
      'touch /opt/tools/new',
      'echo >> /opt/tools/greet.py',
      'rm -f /opt/tools/run',
      'chmod 777 /opt/tools/run',
      'mv /opt/tools /opt/other',
      'touch /opt/new',
      'mount -o remount,rw /opt/tools',
      'ln /opt/tools/run /tmp/run',
    ];
    const { output } = await sh(sandbox, attacks.map((one) => `(${one}) >/dev/null 2>&1; echo $?`).join('\n'));
    expect(output.trim().split('\n')).toHaveLength(attacks.length);
    expect(output).not.toMatch(/^0$/mu);
    expect(readdirSync(at('allowed/kit')).toSorted()).toEqual(['greet.py', 'leak', 'run']);
    expect(readFileSync(at('allowed/kit/greet.py'), 'utf8')).toBe('def greet(): return "hello from the kit"\n');
  });

  it('shows nothing beyond itself: a link in it leads nowhere', async () => {
    const sandbox = await make(at('allowed/kit'));
    expect((await sh(sandbox, 'cat /opt/tools/leak; ls /opt/tools/..')).output).toMatch(/No such file[^]*\ntools\n$/u);
  });

  it('is judged by its real path: a link into an allowed folder is followed, one out of it refused', async () => {
    expect((await sh(await make(at('way-in')), '/opt/tools/run')).output).toBe('it ran\n');
    await expect(make(at('allowed/link'))).rejects.toThrow(/toolsFolder.*secret/u);
  });

  it.each([
    ['outside of what the worker allows', 'secret'],
    ['in the home of the stack', 'project/.longhaul/store'],
    ['that holds the home of the stack', 'project'],
    ['that is missing', 'allowed/none'],
    ['that is a file', 'allowed/kit/run'],
  ])('%s is refused before anything is made', async (_, name) => {
    await expect(make(at(name))).rejects.toMatchObject({ name: 'SandboxImpossible', message: /toolsFolder/u });
    expect(await provider.list()).not.toContain(`tools-${serial}`);
  });

  it('in the project is allowed, as other folders to read', async () => {
    expect((await sh(await make(at('project/kit')), 'ls /opt')).output).toBe('tools\n');
  });

  it.each([
    ['kit', {}, /absolute/u],
    [at('allowed/kit'), { workdir: '/opt' }, /workdir and folders elsewhere/u],
    [at('allowed/kit'), { workdir: '/opt/tools/work' }, /workdir and folders elsewhere/u],
    [at('allowed/kit'), { folders: ['/opt'] }, /workdir and folders elsewhere/u],
  ] as const)('%s with %o is refused by name', async (path, changes, reason) => {
    await expect(make(path, changes as Partial<SandboxSpec>)).rejects.toThrow(reason);
  });

  it('is refused where nobody allows folders', async () => {
    const closed = await openBench();
    const spec = specOf('tools-none', { toolsFolder: at('allowed/kit') });
    await expect(closed.provider.create(spec)).rejects.toThrow(/no folder of this host/u);
  });

  it.runIf(process.getuid?.() === 0)('that the sandbox’s user cannot enter is refused with the remedy', async () => {
    const open = (await openBench({ guardTools: () => undefined })).provider;
    const spec = specOf('tools-closed', { toolsFolder: at('closed/kit') });
    await expect(open.create(spec)).rejects.toThrow(/closed \(chmod o\+x\)/u);
  });
});
