/**
 * Hunts a lost sandbox that invalidates records: a model call that is repeated, an answer that changes, a turn that is
 * missing in the new sandbox. Sandboxes are scripted: their state is the list of commands that they ran.
 * Not asserted: real files and shells; see test/workflows/rollout/restored-rollout.test.ts.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { describe, expect, it } from 'vitest';
import type { ToolCall } from '../../../protocol/message.ts';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { SandboxLost } from '../../../sandboxes/sandbox.ts';
import { attemptOf, dyingAt, eventLines, inActivity, useWorld } from '../world.ts';

const world = useWorld();
const attempt = attemptOf();
const first = `${attempt.rollout}#1`;
const second = `${first}~1`;

function parts(store = world.now.store) {
  const { provider } = world.now;
  return {
    ...createInitActivities({
      store,
      tasks: new TaskLoader(store),
      provider,
      host: 'here',
      maxLiveSandboxes: 1,
      sandboxTtlSeconds: 60,
    }),
    ...createAgentRunActivities({ store, tasks: new TaskLoader(store), provider, host: 'here', sandboxTtlSeconds: 60 }),
  };
}
const prepare = () => inActivity(() => parts().prepare(attempt));
const restore = (n = 1, store = world.now.store) =>
  inActivity(() => parts(store).restoreSandbox({ ...attempt, restore: n, toolTimeoutSeconds: 7 }));
const act = (turn: number, sandbox: string, store = world.now.store) =>
  inActivity(() => parts(store).agentRun({ ...attempt, sandbox, host: 'here', turn, toolTimeoutSeconds: 7 }));
const ran = (from = 0) => world.now.provider.calls.slice(from).map(({ command }) => command);

const policyCalled = (turn: number, ...commands: string[]) =>
  called(
    turn,
    commands.map((command) => ({ name: 'bash', arguments: { command } })),
  );
const policySearched = (turn: number) => called(turn, [{ name: 'search', arguments: { query: 'x' } }]);

async function called(turn: number, calls: ToolCall[]): Promise<void> {
  await world.now.store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
  });
}

/** Two turns of three calls, then the sandbox is lost. */
async function lostAfterTwoTurns(): Promise<void> {
  await prepare();
  await policyCalled(1, 'a', 'b');
  await policyCalled(2, 'c');
  await act(1, first);
  await act(2, first);
  await world.now.provider.destroy(first);
}

describe('a sandbox that replaces a lost one', () => {
  it('has run the recorded calls again in their order, under the lost one’s room, and no answer changes', async () => {
    await lostAfterTwoTurns();
    const before = await world.now.store.list('act:');
    expect(await restore()).toEqual({ sandbox: { sandbox: second, host: 'here', ttlSeconds: 60 }, gradedIn: 'fresh' });
    expect(ran(3)).toEqual(['a', 'b', 'c']);
    expect(await world.now.store.list('act:')).toEqual(before);
    expect((await world.now.store.leases('sandbox')).map(({ id }) => id)).toEqual([second]);
    expect([...world.now.provider.live]).toEqual([second]);
    expect(await eventLines(world.now.store)).toEqual(['started', 'restored 1']);
  });

  it('counts replays as replays, and no tool call as repeated', async () => {
    await lostAfterTwoTurns();
    await restore();
    expect(await world.now.store.repeats()).toMatchObject({ tool: 0, replay: 0, restore: 0 });
  });

  it('continues in the middle of a turn: what was answered is run again for its effect alone, the rest for the first time', async () => {
    await lostAfterTwoTurns();
    await restore();
    await policyCalled(3, 'd', 'e');
    const { store, provider } = world.now;
    provider.beforeExec = ({ command }) => {
      if (command === 'e') throw new SandboxLost('gone');
    };
    await expect(act(3, second)).rejects.toMatchObject({ type: 'SandboxLost' });
    provider.beforeExec = () => undefined;
    await provider.destroy(second);
    await restore(2);
    const before = provider.calls.length;
    await act(3, `${first}~2`);
    expect(ran(before)).toEqual(['d', 'e']);
    expect((await store.get<ActRecord>(keys.act(attempt, 3)))?.messages.map(({ content }) => content)).toEqual([
      'ran d',
      'ran e',
    ]);
    // The call that ran when the sandbox was lost was started twice, and the journal shows it.
    expect((await store.repeats())['tool']).toBe(1);
  });

  it('whose state differs is given up, and leaves neither sandbox nor lease', async () => {
    await lostAfterTwoTurns();
    world.now.provider.drifts = (id) => id === second;
    await expect(restore()).rejects.toMatchObject({
      type: 'RestoreFailed',
      nonRetryable: true,
      message: expect.stringMatching(/after turn 2 the workspace had the digest/),
    });
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });

  it('cannot be verified if the lost one’s state was never recorded', async () => {
    await lostAfterTwoTurns();
    const { messages, sandbox } = (await world.now.store.get<ActRecord>(keys.act(attempt, 2)))!;
    const blind = new Proxy(world.now.store, {
      get: (target, name) =>
        name === 'list'
          ? async (prefix: string) =>
              (await target.list(prefix)).map((row) =>
                row.key === keys.act(attempt, 2) ? { ...row, value: { messages, sandbox } } : row,
              )
          : (Reflect.get(target, name) as (...given: unknown[]) => unknown).bind(target),
    });
    await expect(restore(1, blind)).rejects.toMatchObject({ type: 'RestoreFailed' });
  });

  it('requested again after a crash is the same one, and runs nothing twice', async () => {
    await lostAfterTwoTurns();
    const { store, provider } = world.now;
    await expect(restore(1, dyingAt(store, 'append'))).rejects.toThrow('killed here');
    const before = provider.calls.length;
    expect((await restore()).sandbox?.sandbox).toBe(second);
    expect(provider.calls.length).toBe(before);
  });

  it('that was lost in its turn is not made again under the same name', async () => {
    await lostAfterTwoTurns();
    await restore();
    await world.now.provider.destroy(second);
    await expect(restore()).rejects.toMatchObject({ type: 'SandboxLost' });
    expect([...world.now.provider.live]).toEqual([]);
  });

  it('is not needed if the work was collected', async () => {
    await lostAfterTwoTurns();
    await world.now.store.putOnce(keys.collect(attempt), { artifact: 'sha256:00', bytes: 0 });
    await restore();
    expect([...world.now.provider.live]).toEqual([]);
    expect(ran(3)).toEqual([]);
  });
});

/** Why: to digest the workspace costs more than most calls, and a call that only reads does not change it. */
describe('calls that only read', () => {
  const left = async (turn: number) => {
    const { digest, untouched } = (await world.now.store.get<ActRecord>(keys.act(attempt, turn)))!;
    return untouched ? 'untouched' : digest;
  };

  it('keep the digest, and other calls cause a new one', async () => {
    await prepare();
    await policySearched(1);
    await act(1, first);
    await policyCalled(2, 'a');
    await act(2, first);
    // The policy wrote no call in turn 3.
    await policySearched(4);
    await act(4, first);
    await policyCalled(5, 'b');
    await act(5, first);
    expect(await left(1)).toBe('untouched');
    expect(await left(2)).toMatch(/^[0-9a-f]{64}$/u);
    expect(await left(4)).toBe(await left(2));
    expect(await left(5)).not.toBe(await left(2));
    await world.now.provider.destroy(first);
    const before = world.now.provider.calls.length;
    expect((await restore()).sandbox?.sandbox).toBe(second);
    expect(ran(before).length).toBe(4);
  });

  it('show by their answers that a sandbox is unchanged', async () => {
    await prepare();
    await policySearched(1);
    await act(1, first);
    await world.now.provider.destroy(first);
    expect((await restore()).sandbox?.sandbox).toBe(second);
    await world.now.provider.destroy(second);
    world.now.provider.drifts = (id) => id === `${first}~2`;
    await expect(restore(2)).rejects.toMatchObject({
      type: 'RestoreFailed',
      message: expect.stringMatching(/turn 1, which only reads, has another answer/),
    });
    expect([...world.now.provider.live]).toEqual([]);
  });
});

/** Why: a host that seemed dead may finish a turn after its sandbox was given up. */
it('a turn that ended in the lost sandbox after all is replayed before the next one', async () => {
  await lostAfterTwoTurns();
  await restore();
  await policyCalled(3, 'd');
  // The other host's worker is late: its sandbox has run the same calls.
  const { store, provider } = world.now;
  await provider.create({ id: 'elsewhere' });
  for (const turn of [1, 2]) await restoreInto('elsewhere', turn);
  await act(3, 'elsewhere');
  const before = provider.calls.length;
  await act(3, second);
  expect(ran(before)).toEqual(['d']);
  await act(3, second);
  expect(ran(before)).toEqual(['d']);
  expect((await store.repeats())['tool']).toBe(0);
});

async function restoreInto(sandbox: string, turn: number): Promise<void> {
  const connected = await world.now.provider.connect(sandbox);
  for (const [index, command] of (turn === 1 ? ['a', 'b'] : ['c']).entries()) {
    await connected.exec({ callId: `${first}/${turn}/${index}`, command, timeoutMs: 1, outputLimit: 1 });
  }
}
