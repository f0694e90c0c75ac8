/**
 * Hunts a restored sandbox that lacks what `start` made in the lost one: an attempt would continue, and be graded,
 * without it. Real bubblewrap sandboxes and files; the policy's calls are written by the test.
 */
import { beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { ActRecord, GenerateRecord, StartRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { attemptOf, inActivity, useWorld } from '../world.ts';

const bench = await openBench();
const world = useWorld();
/** What `start` does and returns, by the number of its calls so far. */
let start: (calls: number) => { readonly command: string; readonly state: unknown };
let calls = 0;
beforeEach(() => {
  calls = 0;
});
defineEnvironment({
  name: 'begins',
  open: async () =>
    await Promise.resolve({
      digest: 'begins',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Do it.' }],
          tools: ['bash', 'finish'],
          sandboxes: { main: { workdir: '/work', files: [], env: {} } },
          start: async (ctx) => {
            const { command, state } = start(calls);
            calls += 1;
            const callId = `${ctx.id}/${ctx.execution}`;
            await (await ctx.sandbox()).exec({ callId, command, timeoutMs: 20_000, outputLimit: 1000 });
            return { state, messages: [{ role: 'user', content: 'Begun.' }] };
          },
          grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
        }),
    }),
});

let rollouts = 0;
/** One rollout of its own per test: the sandboxes are on the machine. */
function parts() {
  const { store } = world.now;
  rollouts += 1;
  const attempt = { ...attemptOf(0, rollouts), task: 'begins-train-0' };
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider: bench.provider, host: 'here', maxLiveSandboxes: 9, sandboxTtlSeconds: 60 };
  const [init, agent] = [createInitActivities(place), createAgentRunActivities(place)];
  const main = `${attempt.rollout}#1`;
  return {
    attempt,
    main,
    prepare: () => inActivity(() => init.prepare(attempt)),
    restore: (restore = 1) => inActivity(() => init.restoreSandbox({ ...attempt, restore, toolTimeoutSeconds: 20 })),
    lose: () => bench.provider.destroy(main),
    act: async (turn: number, command: string, sandbox = main): Promise<string | undefined> => {
      await store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
        version: 0,
        appended: [1],
        reset: false,
        sampled: [2],
        logprobs: [-1],
        end: 'stop',
        parsed: { kind: 'calls', content: '', calls: [{ name: 'bash', arguments: { command } }] },
      });
      await inActivity(() => agent.agentRun({ ...attempt, sandbox, host: 'here', turn, toolTimeoutSeconds: 20 }));
      return (await store.get<ActRecord>(keys.act(attempt, turn)))?.messages[0]?.content;
    },
  };
}

it('has run start again before the recorded calls, and the record of start stays', async () => {
  start = () => ({ command: 'echo seed > made.txt; cd /tmp', state: { made: 1 } });
  const { attempt, main, prepare, restore, lose, act } = parts();
  await prepare();
  const recorded = await world.now.store.get<StartRecord>(keys.start(attempt));
  expect(await act(1, 'pwd; cat /work/made.txt; echo more >> /work/made.txt')).toContain('/tmp\nseed');
  await lose();
  await restore();
  expect(calls).toBe(2);
  expect(await act(2, 'pwd; cat /work/made.txt', `${main}~1`)).toContain('/tmp\nseed\nmore');
  expect(await world.now.store.get(keys.start(attempt))).toEqual(recorded);
  expect(recorded).toMatchObject({ state: { made: 1 }, digest: expect.stringMatching(/^[0-9a-f]{64}$/u) });
});

it.each([
  ['state', (n: number) => ({ command: 'true', state: { n } }), /another state/u],
  ['workspace', (n: number) => ({ command: `echo ${n} > made.txt`, state: {} }), /left a workspace/u],
])('whose start gives another %s is given up, before a call runs in it', async (_, given, message) => {
  start = given;
  const { prepare, restore, lose } = parts();
  await prepare();
  await lose();
  await expect(restore()).rejects.toMatchObject({
    type: 'RestoreFailed',
    nonRetryable: true,
    message: expect.stringMatching(message),
  });
  expect(await world.now.store.leases('sandbox')).toEqual([]);
});
