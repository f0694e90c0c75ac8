/**
 * Life of a container: made once for any number of requests, adopted or replaced on a name clash, removed completely.
 */

import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { SandboxImpossible, SandboxLost, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { DockerLauncher, scopeOf } from '../../../sandboxes/docker/launcher.ts';
import { readRecord, writeRecord } from '../../../sandboxes/docker/record.ts';
import { claimFolder, folderOf } from '../../../sandboxes/supervised/state.ts';
import { eventually, makeAndKill, openDockerBench, sh, specOf } from '../harness.ts';

const bench = await openDockerBench({ transport: 'socket' });
const overExec = await openDockerBench({ transport: 'exec' });
const { provider, stateDir } = bench;
const { docker, podman } = provider.engine;

const containersOf = async (folder: string): Promise<string[]> => {
  const filters = { label: [`longhaul.scope=${scopeOf(folder)}`] };
  return (await docker.listContainers({ all: true, filters })).map(({ Id }) => Id);
};

const containerOf = (id: string, of = bench) => docker.getContainer(readRecord(folderOf(of.stateDir, id))?.name ?? '');

function launcher(): DockerLauncher {
  const { engine, images } = provider;
  return new DockerLauncher({
    engine,
    images,
    stateDir,
    supervisorPath: bench.supervisorPath,
    runtime: undefined,
    transport: 'socket',
    ownKernel: false,
  });
}

/**
 * Another process takes the warm sandbox `from` as `to` while the records are being listed: after their names were read
 * (the reader then waits for the first record's id), and before any other record is read.
 */
async function takenWhileListed(from: string, to: string): Promise<{ readonly done: Promise<number | null> }> {
  const first = join(stateDir, '0'.repeat(24));
  const id = join(first, 'id');
  mkdirSync(first);
  execFileSync('mkfifo', [id]);
  const program = `
    import { closeSync, openSync, renameSync, writeFileSync, writeSync } from 'node:fs';
    import { passOnFolder } from '${join(import.meta.dirname, '../../../sandboxes/supervised/state.ts')}';
    const [stateDir, from, to, id] = process.argv.slice(1);
    process.stdout.write('up');
    const reader = openSync(id, 'w');
    const passedOn = passOnFolder(stateDir, from, to);
    // A second listing does not wait.
    writeFileSync(id + '.next', 'first');
    renameSync(id + '.next', id);
    writeSync(reader, 'first');
    closeSync(reader);
    process.exitCode = passedOn ? 0 : 1;`;
  const taker = spawn(process.execPath, ['--input-type=module', '-e', program, stateDir, from, to, id], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const done = new Promise<number | null>((resolve) => taker.once('exit', resolve));
  await new Promise((resolve) => taker.stdout.once('data', resolve));
  onTestFinished(() => rmSync(first, { recursive: true, force: true }));
  return { done };
}

describe('create', () => {
  it('adopts a live sandbox of the same id, from this process or another, and runs its set-up once', async () => {
    const spec = specOf('run/step-1/task/0 with a long name/'.repeat(8), { setup: 'echo x >> setups' });
    const elsewhere = await bench.reopen();
    const made = await Promise.all([
      provider.create(spec),
      provider.create(spec),
      elsewhere.create(spec),
      elsewhere.create(spec),
    ]);
    await sh(made[0], 'echo mine > file');
    expect((await sh(await elsewhere.create(spec), 'cat setups file')).output).toBe('x\nmine\n');
    expect(await containersOf(stateDir)).toHaveLength(1);
    await elsewhere.destroy(spec.id);
    expect(await provider.list()).toEqual([]);
    expect(await containersOf(stateDir)).toEqual([]);
  });

  it('takes over from a maker that is killed at any moment, and leaves one container', async () => {
    for (const delay of [0, 60, 150, 300]) {
      const spec = specOf(`killed/${delay}`, { setup: 'echo x >> setups; sleep 0.05' });
      await makeAndKill(bench, spec, delay);
      expect((await sh(await provider.create(spec), 'cat setups')).output).toBe('x\n');
      expect(await containersOf(stateDir)).toHaveLength(1);
      await provider.destroy(spec.id);
    }
  });

  it('waits for a name that the daemon has reserved for a container that cannot be inspected', async () => {
    const reserved = Object.assign(new Error('Conflict. The container name is already in use'), { statusCode: 409 });
    const create = vi.spyOn(docker, 'createContainer');
    onTestFinished(() => create.mockRestore());
    for (let i = 0; i < 8; i += 1) create.mockRejectedValueOnce(reserved);
    expect((await sh(await provider.create(specOf('reserved')), 'echo made')).output).toBe('made\n');
    expect(create).toHaveBeenCalledTimes(9);
    await provider.destroy('reserved');
  });

  it('adopts a container of ours whose record was lost, where it can be reached', async () => {
    const made = await overExec.provider.create(specOf('clash', { setup: 'echo x >> setups' }));
    await sh(made, 'echo mine > file');
    made.close();
    rmSync(folderOf(overExec.stateDir, 'clash'), { recursive: true });
    expect(
      (await sh(await overExec.provider.create(specOf('clash', { setup: 'echo x >> setups' })), 'cat setups file'))
        .output,
    ).toBe('x\nmine\n');
    expect(await containersOf(overExec.stateDir)).toHaveLength(1);
    await overExec.provider.destroy('clash');
    expect(await containersOf(overExec.stateDir)).toEqual([]);
  });

  it('replaces one that cannot be reached', async () => {
    await sh(await provider.create(specOf('clash')), 'echo old > file');
    rmSync(folderOf(stateDir, 'clash'), { recursive: true });
    expect((await sh(await provider.create(specOf('clash')), 'ls')).output).toBe('');
    expect(await containersOf(stateDir)).toHaveLength(1);
    await provider.destroy('clash');
  });

  it('does not touch a foreign container with that name, and reports it', async () => {
    await provider.create(specOf('foreign'));
    const name = readRecord(folderOf(stateDir, 'foreign'))?.name ?? '';
    await provider.destroy('foreign');
    const theirs = await docker.createContainer({
      name,
      Image: await provider.images.ensure(undefined),
      Cmd: ['true'],
    });
    await expect(provider.create(specOf('foreign'))).rejects.toThrow('a container that Longhaul did not make');
    await theirs.remove();
    expect(await provider.list()).toEqual([]);
  });

  it('resolves the image name again if the image that was found is gone', async () => {
    const reference = { repo: `localhost/longhaul-renewed-${process.pid}`, tag: '1' };
    const name = `${reference.repo}:${reference.tag}`;
    const commit = async (word: string): Promise<void> => {
      const made = await docker.createContainer({
        Image: await provider.images.ensure(undefined),
        Cmd: ['true'],
        Env: [`WORD=${word}`],
        HostConfig: { NetworkMode: 'none' },
      });
      await made.commit(reference);
      await made.remove();
    };
    onTestFinished(async () => void (await docker.getImage(name).remove({ force: true })));
    await commit('first');
    const found = await provider.images.ensure(name);
    await docker.getImage(name).remove({ force: true });
    await commit('second');
    await provider.create(specOf('renewed', { image: name }));
    expect(await provider.images.ensure(name)).not.toBe(found);
    await provider.destroy('renewed');
  });

  it('works with folders of any name that the daemon accepts', async () => {
    for (const transport of ['socket', 'exec'] as const) {
      const odd = mkdtempSync(join(tmpdir(), podman ? 'longhaul: a\\' : 'longhaul: a,b="c"\\'));
      onTestFinished(() => rmSync(odd, { recursive: true, force: true }));
      if (podman)
        await expect(openDockerBench({ transport, stateDir: join(odd, 'a,b') })).rejects.toThrow(SandboxImpossible);
      const { provider: there } = await openDockerBench({ transport, stateDir: join(odd, 'state:ro') });
      expect((await sh(await there.create(specOf('odd')), 'echo made')).output).toBe('made\n');
      await there.destroy('odd');
      expect(await containersOf(join(odd, 'state:ro'))).toEqual([]);
    }
  });

  it.each(['before there is a container', 'before it starts'])(
    'is unavailable, and leaves nothing, where somebody ends it %s',
    async (when) => {
      const create = docker.createContainer.bind(docker);
      docker.createContainer = (async (options: Parameters<typeof create>[0]) => {
        if (when !== 'before it starts') await provider.destroy('unwanted');
        const made = await create(options);
        // As if the ending process had searched for the container before it existed.
        if (when === 'before it starts') rmSync(folderOf(stateDir, 'unwanted'), { recursive: true });
        return made;
      }) as typeof docker.createContainer;
      try {
        const ended = provider.create(specOf('unwanted'));
        await expect(ended).rejects.toThrow(SandboxUnavailable);
        await expect(ended).rejects.toThrow('was ended while it was being created');
      } finally {
        docker.createContainer = create;
      }
      expect(await containersOf(stateDir)).toEqual([]);
      expect(readdirSync(stateDir).filter((name) => !name.startsWith('runtime-'))).toEqual([]);
    },
  );

  it('leaves nothing when its set-up fails', async () => {
    const failed = provider.create(specOf('fails', { setup: 'echo broken; exit 3' }));
    await expect(failed).rejects.toThrow(SandboxUnavailable);
    await expect(failed).rejects.toThrow('its set-up failed with 3: broken');
    expect(await containersOf(stateDir)).toEqual([]);
  });

  it('rejects a runtime that the daemon lacks before anything is made, and never falls back to another', async () => {
    const refused = openDockerBench({ runtime: 'no-such-runtime' });
    await expect(refused).rejects.toThrow(SandboxImpossible);
    await expect(refused).rejects.toThrow(
      `runtime no-such-runtime: ${podman ? "Podman's service starts every container with its own runtime (" : 'the Docker daemon has '}`,
    );
    // Podman lists these, but would use its default anyway.
    for (const runtime of podman ? ['runsc', 'kata'] : [])
      await expect(openDockerBench({ runtime })).rejects.toThrow(SandboxImpossible);
  });

  it('passes the requested runtime to the daemon', async () => {
    const runtime = provider.engine.defaultRuntime ?? 'runc';
    const other = await openDockerBench({ runtime });
    await other.provider.create(specOf('runtime'));
    expect((await containerOf('runtime', other).inspect()).HostConfig.Runtime).toBe(podman ? 'oci' : runtime);
  });
});

describe('the end', () => {
  it('leaves no container, no folder and no process, and may be repeated and raced', async () => {
    const sandbox = await provider.create(specOf('gone'));
    await sh(sandbox, 'trap "" TERM; (setsid sleep 1000 &) ; sleep 1000 & disown');
    await Promise.all([provider.destroy('gone'), (await bench.reopen()).destroy('gone')]);
    await provider.destroy('gone');
    expect(await containersOf(stateDir)).toEqual([]);
    expect(readdirSync(stateDir).filter((name) => !name.startsWith('runtime-'))).toEqual([]);
    await expect(sh(sandbox, 'true')).rejects.toThrow(SandboxLost);
    await expect(provider.connect('gone')).rejects.toThrow(SandboxLost);
  });

  it('comes by itself without a renewal, and the remains are listed as ended', async () => {
    const kept = await provider.create(specOf('kept', { ttlSeconds: 1 }));
    await kept.renew(60);
    await provider.create(specOf('abandoned', { ttlSeconds: 0.3 }));
    await eventually('the container ends', async () =>
      (await containerOf('abandoned').inspect()).State.Running ? undefined : true,
    );
    expect(await provider.ended?.()).toEqual(['abandoned']);
    await expect(provider.connect('abandoned')).rejects.toThrow(SandboxLost);
    expect((await sh(kept, 'echo alive')).output).toBe('alive\n');
    expect(await provider.sweep((id) => id === 'kept')).toEqual(['abandoned']);
    expect(await containersOf(stateDir)).toHaveLength(1);
    await provider.destroy('kept');
  });

  it('is a lost sandbox if the container was removed, at once and for all clients', async () => {
    const sandbox = await provider.create(specOf('removed'));
    const busy = expect(sh(sandbox, 'sleep 60')).rejects.toThrow(SandboxLost);
    await containerOf('removed').remove({ force: true });
    await busy;
    await expect(provider.connect('removed')).rejects.toThrow(SandboxLost);
    expect(await provider.ended()).toEqual(['removed']);
    await provider.destroy('removed');
  });

  it('is not assumed for one that another live process is making: its record is older than its container', async () => {
    const folder = claimFolder(stateDir, 'making') ?? '';
    writeRecord(folder, { name: 'not-yet', claim: 'not-yet' });
    expect(await (await bench.reopen()).ended?.()).toEqual([]);
    writeFileSync(join(folder, 'maker'), '999999 1\n');
    expect(await provider.ended()).toEqual(['making']);
    await provider.destroy('making');
  });

  it('finds containers of this state directory without a record, by their label', async () => {
    await provider.create(specOf('orphan'));
    await provider.create(specOf('held'));
    rmSync(folderOf(stateDir, 'orphan'), { recursive: true });
    await launcher().removeOrphans(0);
    expect(await containersOf(stateDir)).toHaveLength(1);
    expect((await sh(await provider.connect('held'), 'echo held')).output).toBe('held\n');
    await provider.destroy('held');
  });

  it('spares the container of a warm sandbox that another process takes while records are listed', async () => {
    const { workdir, limits } = specOf('any');
    await provider.warm('warm/one', { workdir, limits }, 60);
    const taken = await takenWhileListed('warm/one', 'taken');
    await launcher().removeOrphans(0);
    expect(await taken.done).toBe(0);
    expect(await containersOf(stateDir)).toHaveLength(1);
    expect((await sh(await provider.create(specOf('taken')), 'echo alive')).output).toBe('alive\n');
    await provider.destroy('taken');
  });
});
