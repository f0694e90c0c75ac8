/**
 * Hunts a rollout with an MCP server that counts a call twice or loses one: real sandboxes, real store, a scripted
 * policy. Workers are killed between a call and its record, and sandboxes are lost.
 */
import { beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { ToolCall } from '../../../protocol/message.ts';
import type { ActRecord, GenerateRecord, McpRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { SandboxLost } from '../../../sandboxes/sandbox.ts';
import type { Task } from '../../../tasks/environment.ts';
import { offeredTools } from '../../../tasks/offered-tools.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { COUNTER } from '../../support/mcp-counter.ts';
import { attemptOf, dyingAt, inActivity, useWorld } from '../world.ts';

const bench = await openBench();
const world = useWorld();
let tests = 0;
let command: readonly string[];
beforeEach(() => {
  tests += 1;
  command = ['python3', '/work/counter.py'];
});
defineEnvironment({
  name: 'counted',
  open: async () =>
    await Promise.resolve({
      digest: 'counted',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Count.' }],
          tools: ['bash', 'finish'],
          mcp: { counter: { command } },
          sandboxes: {
            main: {
              workdir: '/work',
              files: [{ path: 'counter.py', content: COUNTER }],
              env: {},
              limits: { memoryMiB: 512, processes: 64, diskMiB: 64 },
            },
          },
          grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
        }),
    }),
});

/** Sandboxes are real, and those of an earlier test may still be there. */
const attempt = () => ({ ...attemptOf(0, tests), task: 'counted-train-0' });
const sandboxOf = (lost = 0) => `${attempt().rollout}#1${lost === 0 ? '' : `~${lost}`}`;

function parts(store = world.now.store) {
  const place = { store, tasks: new TaskLoader(store), provider: bench.provider, host: 'here', sandboxTtlSeconds: 120 };
  const [agent, init] = [createAgentRunActivities(place), createInitActivities({ ...place, maxLiveSandboxes: 9 })];
  return {
    prepare: () => inActivity(() => init.prepare(attempt())),
    act: (turn: number, sandbox = sandboxOf()) =>
      inActivity(() => agent.agentRun({ ...attempt(), sandbox, host: 'here', turn, toolTimeoutSeconds: 60 })),
    restore: (restore: number) =>
      inActivity(() => init.restoreSandbox({ ...attempt(), restore, toolTimeoutSeconds: 60 })),
  };
}

const add = (by: number): ToolCall => ({ name: 'counter__add', arguments: { by } });
const bash = (text: string): ToolCall => ({ name: 'bash', arguments: { command: text } });

async function called(turn: number, ...calls: ToolCall[]): Promise<void> {
  await world.now.store.putOnce<GenerateRecord>(keys.generate(attempt(), turn), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls },
    command: { do: 'act' },
  });
}
const answers = async (turn: number) =>
  (await world.now.store.get<ActRecord>(keys.act(attempt(), turn)))?.messages.map(({ content }) => content);

it('its tools are listed once, and offered after those of the task', async () => {
  await parts().prepare();
  await parts().prepare();
  const { store } = world.now;
  expect(Object.keys((await store.get<McpRecord>(keys.mcp(attempt()))) ?? {})).toEqual(['counter']);
  const tools = await offeredTools(attempt(), {}, { store, tasks: new TaskLoader(store) });
  expect([...tools.keys()]).toEqual(['bash', 'finish', 'counter__add', 'counter__do', 'counter__total_show']);
  expect(tools.get('counter__add')?.schema.function.parameters).toMatchObject({ required: ['by'] });
});

it('a worker that is killed after a call leaves it to the next one, which does not make it again', async () => {
  await parts().prepare();
  await called(1, add(1), add(2), bash('echo between'), add(4));
  await expect(parts(dyingAt(world.now.store, 'putOnce', keys.answer(attempt(), 1, 1))).act(1)).rejects.toThrow(
    'killed here',
  );
  await parts().act(1);
  expect(await answers(1)).toEqual(['total 1', 'total 3', 'between', 'total 7']);
});

it('a lost sandbox is replaced by one whose server has had the same calls in their order', async () => {
  await parts().prepare();
  await called(1, add(1), bash('echo kept >a.txt'));
  await called(2, add(2));
  await parts().act(1);
  await parts().act(2);
  await bench.provider.destroy(sandboxOf());
  await called(3, add(4));
  await expect(parts().act(3)).rejects.toMatchObject({ type: SandboxLost.name });
  await parts().restore(1);
  await parts().act(3, sandboxOf(1));
  expect([await answers(1), await answers(2), await answers(3)]).toEqual([
    ['total 1', '[no output]'],
    ['total 3'],
    ['total 7'],
  ]);
});

it('a server that was not called before its sandbox was lost is started as the lost one was', async () => {
  await parts().prepare();
  await called(1, bash('echo kept >a.txt'));
  await parts().act(1);
  await bench.provider.destroy(sandboxOf());
  await parts().restore(1);
  await called(2, add(4));
  await parts().act(2, sandboxOf(1));
  expect(await answers(2)).toEqual(['total 4']);
});

it('a server that does not start is the environment’s failure, named with its command', async () => {
  command = ['python3', '/work/no-such-server.py'];
  await expect(parts().prepare()).rejects.toMatchObject({
    type: 'EnvironmentFailed',
    message: expect.stringMatching(
      /^the MCP server counter \(python3 \/work\/no-such-server\.py\) ended .*No such file or directory/su,
    ) as string,
  });
  expect(await bench.provider.list()).not.toContain(sandboxOf());
});
