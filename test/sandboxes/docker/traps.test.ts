/**
 * Known traps of the daemon's API. Tested elsewhere: children of children after a time limit, `kill -9 -1`, memory, and
 * output that a background child holds (`limits`, `shell`).
 */

import { Duplex, PassThrough, Readable } from 'node:stream';

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { FrameParser } from '../../../sandboxes/docker/frames.ts';
import { openExecChannel } from '../../../sandboxes/docker/exec-channel.ts';
import { within } from '../../../sandboxes/docker/engine.ts';
import { DaemonRefused, followReports } from '../../../sandboxes/docker/images/progress.ts';
import { readRecord } from '../../../sandboxes/docker/record.ts';
import { type Sandbox, SandboxLost, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { SupervisorClient } from '../../../sandboxes/supervisor/client.ts';
import { folderOf } from '../../../sandboxes/supervised/state.ts';
import { callOf, eventually, onHost, openDockerBench, sh, specOf } from '../harness.ts';

const bench = await openDockerBench({ transport: 'exec' });
const { provider } = bench;
const { docker } = provider.engine;
const nameOf = (id: string): string => readRecord(folderOf(bench.stateDir, id))?.name ?? '';
const container = (id: string) => docker.getContainer(nameOf(id));
/** Sorted, since Podman returns no fixed order. */
const execsOf = async (id: string): Promise<string[]> => ((await container(id).inspect()).ExecIDs ?? []).toSorted();

describe('an attached stream', () => {
  it('carries much data in both directions at once, unchanged (1: no output without `hijack`; 6: no archives into a read-only root)', async () => {
    const sandbox = await provider.create(specOf('much'));
    const bytes = Buffer.from(Uint8Array.from({ length: 5_000_000 }, (_, n) => (n * 31) % 256));
    const writes = [1, 2, 3].map((n) =>
      sandbox.write({ callId: `much/${n}`, path: `/tmp/much-${n}`, content: bytes.subarray(0, 3_000_000), note: '' }),
    );
    await Promise.all([...writes, sh(sandbox, 'seq 100000')]);
    const [one, two] = await Promise.all([sandbox.read('/tmp/much-1', 1 << 23), sandbox.read('/tmp/much-2', 1 << 23)]);
    for (const read of [one, two])
      expect(read.kind === 'file' && bytes.subarray(0, 3_000_000).equals(read.content)).toBe(true);
    expect((await container('much').inspect()).HostConfig.ReadonlyRootfs).toBe(true);
    await provider.destroy('much');
  });

  it('that breaks ends nothing: the command continues, is attached to again, and its time limit still ends it (2)', async () => {
    const sandbox = await provider.create(specOf('broken'));
    const mark = `longhaul-broken-${process.pid}`;
    const endless = callOf(`exec -a ${mark} sleep 1000`, { timeoutMs: 1500 });
    const lost = expect(sandbox.exec(endless)).rejects.toThrow('this handle was closed');
    await eventually('the command runs', () => (onHost(mark) > 0 ? true : undefined));
    sandbox.close();
    await lost;
    const again = await provider.connect('broken');
    expect(await again.exec(endless)).toMatchObject({ timedOut: true, signal: 'SIGKILL' });
    expect(onHost(mark)).toBe(0);
    await provider.destroy('broken');
  });

  it('survives if the policy kills everything that it may, as does pid 1, since they have other users (3)', async () => {
    const sandbox = await provider.create(specOf('users'));
    const before = await execsOf('users');
    expect(await sh(sandbox, 'sh -c "kill -9 -1"')).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
    expect(await sh(sandbox, 'sleep 60', { timeoutMs: 300 })).toMatchObject({ timedOut: true });
    expect(
      (await sh(sandbox, 'ps -eo uid= | sort -un | tr -d " " | sed "s/^$(id -u)$/agent/" | tr "\\n" " "')).output,
    ).toBe('0 65533 agent ');
    expect(await execsOf('users')).toEqual(before);
    expect((await container('users').inspect()).State.Running).toBe(true);
    await provider.destroy('users');
  });

  it('serves any number of calls: a daemon keeps a record of each exec until the container is removed (13)', async () => {
    const sandbox = await provider.create(specOf('many'));
    // For a while, Podman also lists those that have ended.
    const before = await execsOf('many');
    for (let n = 0; n < 30; n += 1) await sh(sandbox, 'true');
    expect(before).toEqual(expect.arrayContaining(await execsOf('many')));
    await provider.destroy('many');
  });

  it('is never taken for an answer when its program did not start (4)', async () => {
    const plain = await docker.createContainer({
      Image: await provider.images.ensure(undefined),
      Cmd: ['sleep', '60'],
      HostConfig: { NetworkMode: 'none' },
    });
    await plain.start();
    try {
      const client = new SupervisorClient('plain', () => openExecChannel(provider.engine, plain.id));
      await expect(client.exec(callOf('true'))).rejects.toThrow(SandboxUnavailable);
    } finally {
      await plain.remove({ force: true });
    }
  });

  it.each([
    ['the end', (raw: PassThrough) => raw.end()],
    ['the closing', (raw: PassThrough) => raw.destroy()],
    ['an error', (raw: PassThrough) => raw.destroy(new Error('reset'))],
    ['no frame at all', (raw: PassThrough) => raw.write('OCI runtime exec failed: exec failed\r\n')],
  ])('ends if the daemon reports only %s (8)', async (_, end) => {
    const raw = new PassThrough();
    const exec = {
      exec: async () => ({ start: async () => Duplex.from({ readable: raw, writable: new PassThrough().resume() }) }),
    };
    const engine = { ...provider.engine, docker: { getContainer: () => exec } } as unknown as typeof provider.engine;
    const channel = await openExecChannel(engine, 'any');
    channel.on('error', () => undefined);
    const closed = new Promise((resolve) => channel.once('close', resolve));
    channel.resume();
    end(raw);
    await closed;
    expect(channel.destroyed).toBe(true);
  });
});

describe('a container', () => {
  it('that is paused may go on; one that was killed or removed is lost; removing it again is no error (10)', async () => {
    let sandbox: Sandbox | undefined = await provider.create(specOf('paused'));
    sandbox.close();
    await container('paused').pause();
    await expect(provider.connect('paused')).rejects.toThrow(SandboxUnavailable);
    expect(await provider.ended()).toEqual([]);
    await container('paused').unpause();
    // The daemon answers before it updates its own record.
    await expect.poll(async () => (await container('paused').inspect()).State.Paused).toBe(false);
    sandbox = await provider.connect('paused');
    const killed = expect(sh(sandbox, 'sleep 60')).rejects.toThrow(SandboxLost);
    await container('paused').kill();
    await killed;
    const gone = container('paused');
    await provider.destroy('paused');
    await provider.destroy('paused');
    await expect(gone.inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it('whose process ran out of memory continues: the supervisor counts the kills, the daemon does not (5)', async () => {
    const sandbox = await provider.create(specOf('memory'));
    expect(await sh(sandbox, "python3 -c 'x = bytearray(800 << 20)'")).toMatchObject({ outOfMemory: true });
    expect((await container('memory').inspect()).State.Running).toBe(true);
    expect(await sh(sandbox, 'echo fine')).toMatchObject({ output: 'fine\n', outOfMemory: false });
    await provider.destroy('memory');
  });
});

describe('frames (7)', () => {
  const frame = (stream: number, text: Buffer): Buffer => {
    const head = Buffer.alloc(8);
    head.writeUInt8(stream, 0);
    head.writeUInt32BE(text.length, 4);
    return Buffer.concat([head, text]);
  };

  it('are parsed unchanged, wherever the stream is cut', () => {
    const part = fc.tuple(fc.constantFrom(1, 2), fc.uint8Array({ maxLength: 40 }));
    fc.assert(
      fc.property(fc.array(part), fc.array(fc.nat(12), { minLength: 1 }), (parts, cuts) => {
        const out: Record<number, number[]> = { 1: [], 2: [] };
        const parser = new FrameParser({ stdout: (b) => out[1]?.push(...b), stderr: (b) => out[2]?.push(...b) });
        const all = Buffer.concat(parts.map(([stream, bytes]) => frame(stream, Buffer.from(bytes))));
        for (let at = 0, n = 0; at < all.length; n += 1) {
          const size = (cuts[n % cuts.length] ?? 0) + 1;
          parser.push(all.subarray(at, at + size));
          at += size;
        }
        for (const stream of [1, 2])
          expect(out[stream]).toEqual(parts.filter(([s]) => s === stream).flatMap(([, bytes]) => [...bytes]));
      }),
    );
  });

  it('that are invalid are an error, never output', () => {
    const parser = new FrameParser({ stdout: () => undefined, stderr: () => undefined });
    expect(() => parser.push(Buffer.from('OCI runtime exec failed'))).toThrow('where a frame starts');
  });
});

describe('the daemon', () => {
  it('may report an error inside an answer with a good status (11)', async () => {
    const heard: string[] = [];
    const lines = [
      '{"status":"Pulling fs layer","id":"a"}\n{"sta',
      'tus":"Pull complete","id":"a"}\n',
      '{"error":"x","errorDetail":{"message":"manifest unknown"}}\n',
    ];
    const failed = followReports(Readable.from(lines.map((line) => Buffer.from(line))), ({ status }) =>
      heard.push(status ?? ''),
    );
    await expect(failed).rejects.toThrow(new DaemonRefused('manifest unknown'));
    expect(heard).toEqual(['Pulling fs layer', 'Pull complete']);
  });

  it('that falls silent, in a stream or a call, does not hold anybody up (11)', async () => {
    const silent = new PassThrough();
    await expect(followReports(silent, () => undefined, 50)).rejects.toThrow('the daemon sent nothing for 0.05 s');
    await expect(within('anything', new Promise(() => undefined), 20)).rejects.toThrow(
      'Docker did not answer within 0.02 s: anything',
    );
  });
});
