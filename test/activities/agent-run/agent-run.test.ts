/**
 * Hunts tool calls that run again although their answers are recorded, and sandboxes that outlive their use.
 * Not asserted: what the sandbox's own journal prevents; see the tests of sandboxes.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { ApplicationFailure } from '@temporalio/common';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import type { ActRecord, AnswerRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { ToolCall } from '../../../protocol/message.ts';
import { AFTER_FINISH, NOT_FINISHED } from '../../../agents/tools/finish.ts';
import type { AgentRunOutcome } from '../../../protocol/stages.ts';
import { SandboxLost, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { attemptOf, dyingAt, inActivity, useWorld } from '../world.ts';

const world = useWorld();
const attempt = attemptOf();
const sandbox = `${attempt.rollout}#1`;
const input = { ...attempt, sandbox, host: 'here', turn: 1, toolTimeoutSeconds: 7 };

function activities(store = world.now.store) {
  return createAgentRunActivities({
    store,
    tasks: new TaskLoader(store),
    provider: world.now.provider,
    host: 'here',
    sandboxTtlSeconds: 60,
  });
}
const act = () => inActivity(() => activities().agentRun(input));
const actRecord = () => world.now.store.get<ActRecord>(keys.act(input, 1));

const policyCalled = (...commands: string[]) =>
  turnOf(
    ...commands.map((command) =>
      command === 'finish' ? { name: 'finish', arguments: {} } : { name: 'bash', arguments: { command } },
    ),
  );

async function turnOf(...calls: ToolCall[]): Promise<void> {
  await world.now.store.putOnce<GenerateRecord>(keys.generate(input, 1), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
  });
}

/** The digest of a call, read from the answer of a rollout that made it. */
async function policyCalledElsewhere(
  given: string | Record<string, unknown>,
  take: (call: string | undefined) => Promise<unknown>,
): Promise<void> {
  const other = {
    ...attempt,
    rollout: 'elsewhere',
    sandbox: 'elsewhere#1',
    host: 'here',
    turn: 1,
    toolTimeoutSeconds: 7,
  };
  await world.now.provider.create({ id: other.sandbox });
  const calls = [{ name: 'bash', arguments: typeof given === 'string' ? { command: given } : given }];
  await world.now.store.putOnce<GenerateRecord>(keys.generate(other, 1), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
  });
  await inActivity(() => activities().agentRun(other));
  world.now.provider.calls.length = 0;
  await take((await world.now.store.get<AnswerRecord>(keys.answer(other, 1, 0)))?.call);
}

beforeEach(async () => {
  await world.now.provider.create({ id: sandbox });
  await world.now.store.acquireLease(
    { id: sandbox, kind: 'sandbox', owner: attempt.rollout, host: 'here', expiresAt: Date.now() + 60_000, detail: '' },
    1,
  );
});

describe('agentRun', () => {
  it('runs the calls of the turn up to finish, each under its own key, and records the answers', async () => {
    await policyCalled('ls', 'cat a', 'finish', 'rm a');
    expect(await act()).toEqual({ line: '2 answers: ran ls', ms: 3 });
    expect(world.now.provider.calls.map(({ callId, command, timeoutMs }) => [callId, command, timeoutMs])).toEqual([
      [`${sandbox}/1/0`, 'ls', 7000],
      [`${sandbox}/1/1`, 'cat a', 7000],
    ]);
    expect((await actRecord())?.messages).toEqual([
      { role: 'tool', name: 'bash', content: 'ran ls' },
      { role: 'tool', name: 'bash', content: 'ran cat a' },
    ]);
    expect(world.now.provider.log).toEqual([
      `create ${sandbox}`,
      `connect ${sandbox}`,
      `renew ${sandbox} 60`,
      `close ${sandbox}`,
    ]);
  });

  it('returns the record without touching the sandbox, even if that is lost', async () => {
    await policyCalled('ls');
    const first = await act();
    await world.now.provider.destroy(sandbox);
    const before = world.now.provider.log.length;
    expect(await act()).toEqual(first);
    expect(world.now.provider.log.length).toBe(before);
    expect(world.now.provider.calls.length).toBe(1);
    expect(await world.now.store.repeats()).toEqual({ tool: 0 });
  });

  it('continues after a crash at the call that has no answer, under the same key, and counts the repeat', async () => {
    await policyCalled('ls', 'cat a');
    world.now.provider.beforeExec = ({ command }) => {
      if (command === 'cat a' && world.now.provider.calls.length === 1) throw new SandboxUnavailable('try again');
    };
    await expect(act()).rejects.toMatchObject({ type: 'SandboxUnavailable', nonRetryable: false });
    expect(await actRecord()).toBeUndefined();
    world.now.provider.beforeExec = () => undefined;
    await act();
    expect(world.now.provider.calls.map(({ callId }) => callId)).toEqual([`${sandbox}/1/0`, `${sandbox}/1/1`]);
    expect((await actRecord())?.messages.map(({ content }) => content)).toEqual(['ran ls', 'ran cat a']);
    expect(await world.now.store.repeats()).toEqual({ tool: 1 });
  });

  it('records every answer before the next call runs, so that a killed worker repeats none against a changed workspace', async () => {
    await policyCalled('cat a', 'rm a');
    const seen: unknown[] = [];
    world.now.provider.beforeExec = () => {
      seen.push(world.now.store.list(`answer:${sandbox}/`).then((rows) => rows.length));
    };
    await expect(
      inActivity(() => activities(dyingAt(world.now.store, 'putOnce', 'act:')).agentRun(input)),
    ).rejects.toThrow('killed here');
    expect(await Promise.all(seen)).toEqual([0, 1]);
    await act();
    expect(world.now.provider.calls.map(({ command }) => command)).toEqual(['cat a', 'rm a']);
    expect((await actRecord())?.messages.map(({ content }) => content)).toEqual(['ran cat a', 'ran rm a']);
  });

  it.each([
    ['another command', { name: 'bash', arguments: { command: 'cat b' } }],
    ['another tool', { name: 'search', arguments: { query: 'a' } }],
  ])('does not use a recorded answer for %s, and the attempt starts again', async (_, other) => {
    await turnOf(other);
    const answer = { role: 'tool', name: 'bash', content: 'ran cat a', sandbox } as const;
    await policyCalledElsewhere('cat a', async (call) =>
      world.now.store.putOnce(keys.answer(input, 1, 0), { ...answer, call }),
    );
    await expect(act()).rejects.toMatchObject({
      type: 'AnswerMismatch',
      nonRetryable: true,
      message: expect.stringContaining(keys.answer(input, 1, 0)),
    });
    expect(world.now.provider.calls).toEqual([]);
    expect(await actRecord()).toBeUndefined();
  });

  it('recognizes a call whose arguments are written in another order', async () => {
    await turnOf({ name: 'bash', arguments: { command: 'cat a', timeout: 3 } });
    await policyCalledElsewhere({ timeout: 3, command: 'cat a' }, async (call) =>
      world.now.store.putOnce(keys.answer(input, 1, 0), {
        role: 'tool',
        name: 'bash',
        content: 'ran cat a',
        sandbox,
        call,
      }),
    );
    expect((await act()).line).toBe('ran cat a');
    expect(world.now.provider.calls.filter(({ command }) => command === 'cat a')).toEqual([]);
  });

  it('keeps the sandbox and its lease alive while a call takes longer than they would live', async () => {
    await policyCalled('make');
    const lease = async () => (await world.now.store.leases('sandbox'))[0]?.expiresAt ?? 0;
    const renewals = () => world.now.provider.log.filter((line) => line.startsWith('renew')).length;
    const first: number[] = [];
    world.now.provider.duringExec = async () => {
      first.push(await lease());
      await vi.waitUntil(() => renewals() >= 4, { timeout: 120_000 });
      first.push(await lease());
    };
    const { store, provider } = world.now;
    const short = createAgentRunActivities({
      store,
      tasks: new TaskLoader(store),
      provider,
      host: 'here',
      sandboxTtlSeconds: 0.4,
    });
    await inActivity(() => short.agentRun(input));
    expect(first[1]).toBeGreaterThan(first[0] ?? Number.POSITIVE_INFINITY);
    const before = renewals();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(renewals()).toBe(before);
  });

  it('ends by itself half a minute after the deadline, whatever holds it up', async () => {
    const { store, provider } = world.now;
    const connect = vi.fn(() => new Promise<never>(() => undefined));
    const stuck = createAgentRunActivities({
      store,
      tasks: new TaskLoader(store),
      provider: Object.assign(Object.create(provider) as typeof provider, { connect }),
      host: 'here',
      sandboxTtlSeconds: 60,
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    let ended: unknown;
    inActivity(() => stuck.agentRun({ ...input, withinMs: 5000 })).catch((error: unknown) => (ended = error));
    await vi.advanceTimersByTimeAsync(34_900);
    expect(ended).toBeUndefined();
    await vi.advanceTimersByTimeAsync(200);
    vi.useRealTimers();
    expect(ended).toMatchObject({ type: 'DeadlinePassed', nonRetryable: true });
  });

  it('reports a lost sandbox by a failure that is not retried', async () => {
    await policyCalled('ls');
    await world.now.provider.destroy(sandbox);
    const failure = await act().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({
      type: 'SandboxLost',
      nonRetryable: true,
      message: expect.stringMatching(/^train\/r\/step-1\/toy-train-0\/0#1 is gone \(\S+:\d+\)$/),
    });
  });

  it('closes a sandbox that was lost during a call', async () => {
    await policyCalled('ls');
    world.now.provider.beforeExec = () => {
      throw new SandboxLost('it ended');
    };
    await expect(act()).rejects.toMatchObject({ type: 'SandboxLost' });
    expect(world.now.provider.log.at(-1)).toBe(`close ${sandbox}`);
    expect(await actRecord()).toBeUndefined();
  });

  it('fails if the turn holds no calls', async () => {
    await expect(act()).rejects.toThrow(`${keys.generate(input, 1)} holds no tool calls`);
  });
});

describe('a turn that may be the last', () => {
  const last = (collect: 'always' | 'if-finished', store = world.now.store) =>
    inActivity(() => activities(store).agentRun({ ...input, collect }));
  const diffOf = async ({ collected }: AgentRunOutcome) =>
    Buffer.from(await world.now.store.getObject(collected?.artifact ?? 'sha256:')).toString();
  const missing = { name: 'rm', arguments: {} };
  const finish = { name: 'finish', arguments: {} };
  const ls = { name: 'bash', arguments: { command: 'ls' } };

  it('collects the artifact with it, and releases the sandbox', async () => {
    await policyCalled('ls', 'finish');
    const outcome = await last('if-finished');
    expect(outcome).toMatchObject({ line: 'ran ls', collected: { bytes: 'diff of toy-train-0'.length } });
    expect(outcome.unfinished).toBeUndefined();
    expect(await diffOf(outcome)).toBe('diff of toy-train-0');
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });

  it('records no digest: its workspace is not read any more', async () => {
    await policyCalled('ls', 'finish');
    await last('always');
    expect(world.now.provider.calls.map(({ callId }) => callId)).toEqual([`${sandbox}/1/0`]);
    expect(await actRecord()).toEqual({
      messages: [{ role: 'tool', name: 'bash', content: 'ran ls' }],
      ms: 1,
      sandbox,
    });
  });

  it('is not the last if a call before finish was refused, and every call is answered', async () => {
    await turnOf(missing, ls, finish, ls);
    const outcome = await last('if-finished');
    expect(outcome).toMatchObject({
      unfinished: true,
      line: expect.stringContaining('4 answers: Error: there is no tool "rm"'),
    });
    expect(outcome.collected).toBeUndefined();
    expect((await actRecord())?.messages).toEqual([
      { role: 'tool', name: 'rm', content: expect.stringContaining('Error: there is no tool') },
      { role: 'tool', name: 'bash', content: 'ran ls' },
      { role: 'tool', name: 'finish', content: NOT_FINISHED },
      { role: 'tool', name: 'bash', content: AFTER_FINISH },
    ]);
    expect([...world.now.provider.live]).toEqual([sandbox]);
    expect(await last('if-finished')).toEqual(outcome);
    expect(world.now.provider.calls.filter(({ command }) => command === 'ls').length).toBe(1);
  });

  it('is the last by its number, whatever was refused in it', async () => {
    await turnOf(missing, finish);
    const outcome = await last('always');
    expect(outcome.unfinished).toBe(true);
    expect(await diffOf(outcome)).toBe('diff of toy-train-0');
  });

  it('in which a command fails is finished: a failed command has its answer', async () => {
    await policyCalled('false', 'finish');
    expect((await last('if-finished')).unfinished).toBeUndefined();
  });

  it.each([
    ['putOnceWithObject', 'collect:'],
    ['putOnce', 'act:'],
    ['releaseLease', ''],
  ] as const)('killed at %s %s ends the same, once', async (method, prefix) => {
    await policyCalled('ls', 'finish');
    await expect(last('if-finished', dyingAt(world.now.store, method, prefix))).rejects.toThrow('killed here');
    const outcome = await last('if-finished');
    expect(await diffOf(outcome)).toBe('diff of toy-train-0');
    expect(world.now.provider.calls.filter(({ command }) => command === 'ls').length).toBe(1);
    expect([...world.now.provider.live]).toEqual([]);
    expect(await world.now.store.leases('sandbox')).toEqual([]);
  });

  it('whose sandbox is lost after it was collected is still recorded', async () => {
    await policyCalled('ls', 'finish');
    await expect(last('if-finished', dyingAt(world.now.store, 'putOnce', 'act:'))).rejects.toThrow('killed here');
    await world.now.provider.destroy(sandbox);
    expect(await diffOf(await last('if-finished'))).toBe('diff of toy-train-0');
    expect((await actRecord())?.messages).toEqual([{ role: 'tool', name: 'bash', content: 'ran ls' }]);
  });

  it('repeated when a later turn was the last, has still not finished', async () => {
    await turnOf(missing, finish);
    const unfinished = await last('if-finished');
    await inActivity(() => activities().collect({ ...attempt, sandbox, host: 'here' }));
    expect(await last('if-finished')).toEqual(unfinished);
  });
});
