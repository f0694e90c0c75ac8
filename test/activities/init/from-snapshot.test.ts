/**
 * Hunts a sandbox that is restored from a snapshot in another state than the lost one, and calls that are run again
 * although the snapshot holds what they did. Sandboxes and store are real, the policy is scripted.
 * Not asserted: what a snapshot holds; see test/sandboxes/snapshot.test.ts.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { isWorth } from '../../../activities/agent-run/snapshots.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { ToolCall } from '../../../protocol/message.ts';
import type { ActRecord, GenerateRecord, SnapshotRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { attemptOf, inActivity, useWorld } from '../world.ts';

const bench = await openBench();
const world = useWorld();
let tests = 0;
let more: Partial<Task>;
beforeEach(() => {
  tests += 1;
  more = {};
});
const limits = { memoryMiB: 512, processes: 64, diskMiB: 64 };
defineEnvironment({
  name: 'snapped',
  open: async () =>
    await Promise.resolve({
      digest: 'snapped',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Work.' }],
          tools: ['bash', 'search', 'finish'],
          sandboxes: { main: { workdir: '/work', files: [], env: {}, limits } },
          grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
          ...more,
        }),
    }),
});

const attempt = () => ({ ...attemptOf(0, tests), task: 'snapped-train-0' });
const sandboxOf = (lost = 0) => `${attempt().rollout}#1${lost === 0 ? '' : `~${lost}`}`;

/** `afterMs`: 0 takes a snapshot after each turn that changed something. */
function parts(afterMs: number, mib?: number) {
  const { store } = world.now;
  const place = { store, tasks: new TaskLoader(store), provider: bench.provider, host: 'here', sandboxTtlSeconds: 120 };
  const agent = createAgentRunActivities({ ...place, snapshots: { afterMs, mib } });
  const init = createInitActivities({ ...place, maxLiveSandboxes: 9 });
  return {
    prepare: () => inActivity(() => init.prepare(attempt())),
    restore: (restore = 1) => inActivity(() => init.restoreSandbox({ ...attempt(), restore, toolTimeoutSeconds: 30 })),
    act: async (turn: number, what: string | ToolCall, sandbox = sandboxOf()) => {
      const call = typeof what === 'string' ? { name: 'bash', arguments: { command: what } } : what;
      await store.putOnce<GenerateRecord>(keys.generate(attempt(), turn), {
        version: 0,
        appended: [1],
        reset: false,
        sampled: [2],
        logprobs: [-1],
        end: 'stop',
        parsed: { kind: 'calls', content: '', calls: [call] },
      });
      const others = Object.keys(more.sandboxes ?? {}).filter((name) => name !== 'main');
      await inActivity(() =>
        agent.agentRun({ ...attempt(), sandbox, others, host: 'here', turn, toolTimeoutSeconds: 30 }),
      );
      const record = await store.get<ActRecord>(keys.act(attempt(), turn));
      return record?.messages[0]?.content;
    },
  };
}
const snapshots = async () =>
  (await world.now.store.list<SnapshotRecord>(keys.snapshots(attempt()))).map(({ value }) => value);
const begun = (turn: number) => world.now.store.begun(`replay:${sandboxOf(1)}/${turn}/0`);

describe('a lost sandbox', () => {
  it('is restored from its last snapshot, and only the calls after it are run again', async () => {
    const { prepare, act, restore } = parts(0);
    await prepare();
    // Times and random numbers: run again, the calls would leave other files.
    await act(1, 'date +%N > time; head -c 9 /dev/urandom > random; export KEPT=1; cd /tmp');
    const seen = await act(2, 'cat /work/time /work/random | sha256sum');
    const last = await snapshots();
    expect(last.map(({ turn }) => turn)).toEqual([1, 2]);
    const rare = parts(3_600_000);
    await rare.act(3, 'echo more > /work/more; pwd');
    expect(await snapshots()).toEqual(last);
    await bench.provider.destroy(sandboxOf());

    await restore();
    expect([await begun(1), await begun(2), await begun(3)]).toEqual([0, 0, 1]);
    expect(await rare.act(4, 'cat /work/time /work/random | sha256sum; cat /work/more', sandboxOf(1))).toBe(
      `${seen}\nmore`,
    );
    expect(await rare.act(5, 'pwd; echo $KEPT', sandboxOf(1))).toBe('/tmp\n1');
  });

  it('without a snapshot has all its calls run again', async () => {
    const { prepare, act, restore } = parts(3_600_000);
    await prepare();
    await act(1, 'echo one > one');
    await act(2, 'echo two > two');
    expect(await snapshots()).toEqual([]);
    await bench.provider.destroy(sandboxOf());
    await restore();
    expect([await begun(1), await begun(2)]).toEqual([1, 1]);
  });

  it('in which a process ran has no snapshot, and has all its calls run again', async () => {
    const { prepare, act, restore } = parts(0);
    await prepare();
    await act(1, 'sleep 1000 >/dev/null 2>&1 & echo one > one');
    expect(await snapshots()).toEqual([
      expect.objectContaining({ none: expect.stringMatching(/processes run in it/) }),
    ]);
    await bench.provider.destroy(sandboxOf());
    await restore();
    expect(await begun(1)).toBe(1);
  });
});

/** Two sandboxes; `command` runs in the second one at the start. */
function severalOf(command: string): Partial<Task> {
  const one = { workdir: '/work', files: [], env: {}, limits };
  return {
    sandboxes: { main: one, db: one },
    start: async (ctx) => {
      const db = await ctx.sandbox('db');
      await db.exec({ callId: `${ctx.id}/db`, command, timeoutMs: 20_000, outputLimit: 1000 });
      return { state: 1 };
    },
  };
}
const inDb = async (command: string) => {
  const db = await bench.provider.connect(`${sandboxOf(1)}+db`);
  const { output } = await db.exec({ callId: command, command, timeoutMs: 20_000, outputLimit: 1000, fresh: true });
  db.close();
  return output;
};

describe('several sandboxes', () => {
  /** Random: `start`, run again, would leave other files. */
  const RANDOM = 'head -c 9 /dev/urandom | base64 > /work/random; cp /work/random /tmp/random';

  it('are all restored from one snapshot if one of them is lost', async () => {
    more = severalOf(RANDOM);
    const { prepare, act, restore } = parts(0);
    await prepare();
    await act(1, 'echo one > one');
    const [first] = await snapshots();
    expect(first).toMatchObject({ turn: 1, parts: [{ name: 'main' }, { name: 'db' }] });
    const db = await bench.provider.connect(`${sandboxOf()}+db`);
    const random = Buffer.from(
      await db.read('/work/random', 99).then((read) => ('content' in read ? read.content : '')),
    );
    db.close();
    await bench.provider.destroy(`${sandboxOf()}+db`);

    await restore();
    expect(await inDb('cat /work/random /tmp/random')).toBe(`${random.toString()}${random.toString()}`);
    expect([await begun(1), await world.now.store.begun(`replay:${sandboxOf(1)}/start`)]).toEqual([0, 0]);
    expect(await parts(3_600_000).act(2, 'cat /work/one', sandboxOf(1))).toBe('one');
    expect(await bench.provider.list()).not.toContain(sandboxOf());
  });

  it('of which an interrupted restore left some are all made anew: one may be further than the others', async () => {
    more = severalOf(RANDOM);
    const { prepare, act, restore } = parts(0);
    await prepare();
    await act(1, 'echo one > one');
    await bench.provider.destroy(sandboxOf());
    const left = { workdir: '/work', files: [{ path: '/tmp/further', content: '' }], env: {}, limits, ttlSeconds: 120 };
    (await bench.provider.create({ ...left, id: `${sandboxOf(1)}+db` })).close();
    await restore();
    expect(await inDb('ls /tmp')).toBe('home\nrandom\n');
  });
});

describe('no snapshot is taken', () => {
  it('if the next turn is recorded: what acts in it may have begun', async () => {
    const { prepare, act } = parts(0);
    await prepare();
    await world.now.store.putOnce(keys.generate(attempt(), 2), {});
    await act(1, 'echo one > one');
    expect(await snapshots()).toEqual([]);
  });

  it('of some of several sandboxes: a process in one of them is enough', async () => {
    more = severalOf('sleep 1000 >/dev/null 2>&1 & disown');
    const { prepare, act } = parts(0);
    await prepare();
    await act(1, 'echo one > one');
    expect(await snapshots()).toEqual([
      expect.objectContaining({ none: expect.stringMatching(/db: processes run in it/) }),
    ]);
  });

  it('of more than the bound of the workers', async () => {
    const { prepare, act } = parts(0, 1);
    await prepare();
    await act(1, 'head -c 2000000 /dev/urandom > random');
    expect(await snapshots()).toEqual([expect.objectContaining({ none: expect.stringMatching(/more than 1048576/) })]);
  });

  it('if the bound is 0', async () => {
    const { prepare, act } = parts(0, 0);
    await prepare();
    await act(1, 'echo one > one');
    expect(await snapshots()).toEqual([]);
  });

  it('soon after a large one: what is written in an hour is bounded', () => {
    const last = { turn: 1, replayMs: 200, bytes: 180_000_000, parts: [] };
    expect([isWorth(200, last, 100), isWorth(300, last, 100)]).toEqual([false, true]);
    expect([isWorth(99, undefined, 100), isWorth(100, { ...last, bytes: 1 }, 100)]).toEqual([false, true]);
  });

  it('after calls that only read', async () => {
    const { prepare, act } = parts(0);
    await prepare();
    await act(1, { name: 'search', arguments: { query: 'x' } });
    expect(await snapshots()).toEqual([]);
  });
});
