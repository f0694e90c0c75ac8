/**
 * Hunts a desktop that does not do what it is told, and a verdict that does not follow the application's state. Xvfb,
 * xdotool and Tk run in one sandbox for each kind of task.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readImageHeader } from '../../../agents/tools/image-header.ts';
import { computer } from '../../../agents/tools/computer/computer.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { computerEnvironment } from '../../../tasks/computer/environment.ts';
import { KINDS } from '../../../tasks/computer/desktop-tasks.ts';
import type { Task, TaskContext, Work } from '../../../tasks/environment.ts';
import { machineOf } from '../../../tasks/resources.ts';
import { openBench, specOf } from '../../sandboxes/harness.ts';

const hasTk = () => spawnSync('python3', ['-c', 'import tkinter']).status === 0;
const hasDesktop = ['/usr/bin/Xvfb', '/usr/bin/xdotool'].every((path) => existsSync(path)) && hasTk();
const bench = await openBench();

async function opened(
  index: number,
): Promise<{ readonly task: Task; readonly sandbox: Sandbox; readonly ctx: TaskContext }> {
  const options = computerEnvironment.options?.parse({});
  if (options === undefined) throw new Error('no options');
  const dataset = await computerEnvironment.open(options, { path: (_, path) => path });
  const task = await dataset.load('test', index);
  const { network: _network, ...machine } = machineOf(task, 'k', 'main');
  const sandbox = await bench.provider.create({ ...machine, id: `desktop-${index}`, ttlSeconds: 600 });
  const ctx: TaskContext = {
    key: 'k',
    id: `rollout-${index}`,
    execution: 1,
    deadline: Infinity,
    signal: new AbortController().signal,
    provider: bench.provider,
    ask: () => Promise.reject(new Error('no judge')),
    sandbox: () => Promise.resolve(sandbox),
  };
  await task.start?.(ctx);
  return { task, sandbox, ctx };
}

let calls = 0;
const act = async (sandbox: Sandbox, args: Readonly<Record<string, unknown>>) => {
  calls += 1;
  return await computer.run({ name: 'computer', arguments: args }, sandbox, {
    callId: `act-${calls}`,
    timeoutMs: 60_000,
  });
};

async function verdict(task: Task, ctx: TaskContext) {
  const artifact = (await task.collect?.(ctx)) ?? new Uint8Array();
  const work = {
    transcript: [],
    answer: '',
    finish: 'finish-tool',
    turns: 1,
    artifact,
    state: {},
    turnRewards: [],
  } satisfies Work;
  return await task.grade(ctx, work);
}

describe.skipIf(!hasDesktop)('a task on a desktop', () => {
  it.each(KINDS.map((kind, index) => ({ kind, index })))(
    '$kind: nothing done is 0, its solution is 1',
    async ({ kind, index }) => {
      for (const at of [index, index + KINDS.length]) {
        const { task, sandbox, ctx } = await opened(at);
        expect(task.family).toBe(kind);
        expect(await verdict(task, ctx)).toMatchObject({
          reward: 0,
          passed: false,
          reason: 'nothing was saved or pressed',
        });
        for (const message of (await task.oracle?.(ctx)) ?? [])
          for (const call of 'toolCalls' in message ? (message.toolCalls ?? []) : [])
            if (call.name === 'computer') expect((await act(sandbox, call.arguments)).content).not.toContain('Error: ');
        expect(await verdict(task, ctx)).toMatchObject({ reward: 1, passed: true });
        await bench.provider.destroy(sandbox.id);
      }
    },
    300_000,
  );

  it('shows its windows and a picture, refuses what it cannot do, and says that its windows are lost', async () => {
    const { task, sandbox, ctx } = await opened(40);
    const shot = await act(sandbox, { action: 'screenshot' });
    expect(shot.content).toContain('Screen: 800 x 600.');
    expect(shot.content).toContain('- Editor: 500 x 300 at 100, 100');
    expect(readImageHeader(shot.seen?.[0] ?? new Uint8Array())).toMatchObject({
      mediaType: 'image/png',
      width: 800,
      height: 600,
    });
    await act(sandbox, { action: 'click', x: 300, y: 200 });
    const typed = await act(sandbox, { action: 'type', text: "Größe – -x 'a' $HOME" });
    expect(typed.content).toContain('Focused: Editor');
    await act(sandbox, { action: 'press', keys: 'Control+s' });
    const artifact = (await task.collect?.(ctx)) ?? new Uint8Array();
    expect(JSON.parse(Buffer.from(artifact).toString())).toEqual({ saved: "Größe – -x 'a' $HOME" });
    expect(await verdict(task, ctx)).toMatchObject({ reward: 0 });
    expect((await act(sandbox, { action: 'click', x: 900, y: 10 })).content).toContain(
      'Error: 900, 10 is not on the screen',
    );
    expect((await act(sandbox, { action: 'press', keys: 'Nokey' })).content).toContain("Error: 'Nokey' is no key");
    expect((await act(sandbox, { action: 'press', keys: '-v' })).content).toContain('is no key');
    expect(await act(sandbox, { action: 'drag', x: 1, y: 1 })).toMatchObject({ refused: true });
    await sandbox.exec({ callId: 'end', command: 'true', timeoutMs: 60_000, outputLimit: 100, alone: true });
    expect((await act(sandbox, { action: 'screenshot' })).content).toMatch(
      /^\[the desktop was started again: its windows are lost\][^]*There are no windows\./u,
    );
  }, 300_000);

  it('says which program is missing', async () => {
    // Of all programs, only Python is on the path.
    const setup = 'PATH=/usr/bin; mkdir /tmp/bin && ln -s /usr/bin/* /tmp/bin/ && rm /tmp/bin/Xvfb';
    const sandbox = await bench.provider.create(specOf('bare', { setup, env: { PATH: '/tmp/bin' } }));
    const { content } = await act(sandbox, { action: 'screenshot' });
    expect(content).toBe('Error: there is no desktop in this sandbox: its image needs the program Xvfb (Debian: xvfb)');
  }, 120_000);
});
