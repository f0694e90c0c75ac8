/**
 * Hunts a rollout with a server over HTTP whose call is made twice, whose tools differ from worker to worker, or which
 * takes an outage for an answer. Real store, a scripted policy; workers and servers are killed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { OUTCOME_UNKNOWN } from '../../../activities/agent-run/run-in-worker.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { McpHttpServer } from '../../../agents/mcp/server.ts';
import { openHere } from '../../../cli/check/roll-out-here.ts';
import type { ToolCall } from '../../../protocol/message.ts';
import type { ActRecord, GenerateRecord, McpRecord, McpSession } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { Task } from '../../../tasks/environment.ts';
import { offeredTools } from '../../../tasks/offered-tools.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { type McpHttpTestServer, startMcpServer, TOOLS } from '../../support/mcp-http-server.ts';
import { attemptOf, dyingAt, inActivity, useWorld } from '../world.ts';

const world = useWorld();
const attempt = { ...attemptOf(), task: 'far-train-0' };
let server: McpHttpTestServer;
let far: McpHttpServer;
let child: ChildProcess | undefined;

defineEnvironment({
  name: 'far',
  open: async () =>
    await Promise.resolve({
      digest: 'far',
      splits: { train: 10 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Count.' }],
          tools: ['finish'],
          mcp: { far },
          oracle: async () => await Promise.resolve([{ role: 'assistant', content: '', toolCalls: [add(2), add(3)] }]),
          grade: async (_, { transcript }) => {
            const passed = transcript.some(({ content }) => content === 'total 5');
            return await Promise.resolve({ code: 'graded', reward: passed ? 1 : 0, passed, reason: '' });
          },
        }),
    }),
});
beforeEach(async () => {
  server = await startMcpServer();
  far = { url: server.url, effect: 'none' };
});
afterEach(async () => {
  await server.close();
  child?.kill('SIGKILL');
  child = undefined;
});

/** A worker: it knows what is in the store. */
function worker(store = world.now.store) {
  const tasks = new TaskLoader(store);
  const { provider } = world.now;
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const [agent, init] = [createAgentRunActivities(place), createInitActivities(place)];
  return {
    prepare: () => inActivity(() => init.prepare(attempt)),
    act: (turn: number) => inActivity(() => agent.agentRun({ ...attempt, turn, toolTimeoutSeconds: 20 })),
    tools: async () => [...(await offeredTools(attempt, {}, { store, tasks })).keys()],
  };
}
const add = (by: number): ToolCall => ({ name: 'far__add', arguments: { by } });
const does = (what: string): ToolCall => ({ name: 'far__do', arguments: { what } });

async function called(turn: number, ...calls: ToolCall[]): Promise<void> {
  await world.now.store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
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
  (await world.now.store.get<ActRecord>(keys.act(attempt, turn)))?.messages.map(({ content }) => content);
const sessions = async () => world.now.store.list<McpSession>(keys.mcpSessions(attempt, 'far'));

it('its tools are listed once, and every worker offers them, whatever the server has become', async () => {
  await worker().prepare();
  expect(await worker().tools()).toEqual(['finish', 'far__add', 'far__do']);
  const asked = server.asked.length;
  server.options = { tools: [...TOOLS, { ...TOOLS[0], name: 'new' }] };
  await worker().prepare();
  expect(await worker().tools()).toEqual(['finish', 'far__add', 'far__do']);
  expect(server.asked.length).toBe(asked);
  expect(Object.keys((await world.now.store.get<McpRecord>(keys.mcp(attempt))) ?? {})).toEqual(['far']);
});

it('a worker that is killed before its tools are recorded leaves no half of them', async () => {
  await expect(worker(dyingAt(world.now.store, 'putOnce', keys.mcp(attempt))).prepare()).rejects.toThrow('killed here');
  await worker().prepare();
  await called(1, add(2));
  await worker().act(1);
  expect(await answers(1)).toEqual(['total 2']);
  expect(await sessions()).toHaveLength(1);
});

it('a worker that is killed after a call: the next one uses the same session, and recorded calls are not made again', async () => {
  far = { ...far, effect: 'outside' };
  await worker().prepare();
  await called(1, add(1), add(2), add(4));
  await expect(worker(dyingAt(world.now.store, 'putOnce', keys.answer(attempt, 1, 1))).act(1)).rejects.toThrow(
    'killed here',
  );
  await worker().act(1);
  // The second one was made, and no record says how it ended.
  expect(await answers(1)).toEqual(['total 1', OUTCOME_UNKNOWN, 'total 7']);
  expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(3);
});

it('a call of effect none that has no record is made again', async () => {
  await worker().prepare();
  await called(1, does('greet'));
  await expect(worker(dyingAt(world.now.store, 'putOnce', keys.answer(attempt, 1, 0))).act(1)).rejects.toThrow();
  await worker().act(1);
  expect(await answers(1)).toEqual(['naïve ✓']);
  expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(2);
});

it('a server that is down before a call with effects reaches it holds the rollout, and is asked when it is back', async () => {
  far = { ...far, effect: 'outside' };
  server.options = { session: null };
  await worker().prepare();
  await called(1, add(1));
  const down: Array<McpHttpTestServer['options']> = [401, 429].map((status) => ({
    instead: (_, __, response) => {
      response.writeHead(status).end();
      return true;
    },
  }));
  for (const options of down) {
    server.options = options;
    await expect(worker().act(1)).rejects.toMatchObject({ type: 'ServiceUnavailable' });
  }
  const { port } = server;
  await server.close();
  await expect(worker().act(1)).rejects.toMatchObject({ type: 'ServiceUnavailable' });
  expect(await answers(1)).toBeUndefined();
  server = await startMcpServer({ port, session: null });
  await worker().act(1);
  expect(await answers(1)).toEqual(['total 1']);
});

it('one that ended during a call with effects is not asked again', async () => {
  far = { ...far, effect: 'outside' };
  await worker().prepare();
  await called(1, does('drop'));
  await expect(worker().act(1)).rejects.toMatchObject({ type: 'ServiceUnavailable' });
  await worker().act(1);
  expect(await answers(1)).toEqual([OUTCOME_UNKNOWN]);
  expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});

it('one that has forgotten the session of calls with effects ends the attempt without a reward', async () => {
  far = { ...far, effect: 'outside' };
  await worker().prepare();
  await called(1, add(1));
  server.forget();
  for (let tries = 0; tries < 2; tries += 1)
    await expect(worker().act(1)).rejects.toMatchObject({
      type: 'McpFailed',
      message: expect.stringContaining('has ended the session') as string,
    });
  expect(await answers(1)).toBeUndefined();
});

/** A server of its own process, on this port. */
async function spawned(port: number): Promise<number> {
  const support = join(import.meta.dirname, '../../support/mcp-http-server.ts');
  const program = `import { startMcpServer } from '${support}';
    process.stdout.write(String((await startMcpServer({ port: ${port} })).port));`;
  const started = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child = started;
  return Number(await new Promise<Buffer>((resolve) => started.stdout.once('data', resolve)));
}

it('a server that is killed during a call is asked again when it runs, in a session of its own', async () => {
  const port = await spawned(0);
  far = { ...far, url: `http://127.0.0.1:${port}/mcp` };
  await worker().prepare();
  await called(1, does('die'));
  // The process kills itself while the call runs.
  await expect(worker().act(1)).rejects.toMatchObject({ type: 'ServiceUnavailable' });
  await called(2, add(1), add(2));
  await expect(worker().act(2)).rejects.toMatchObject({ type: 'ServiceUnavailable' });
  await spawned(port);
  await worker().act(2);
  expect((await answers(2))?.toSorted()).toEqual([expect.stringMatching(/^total [12]$/u), 'total 3']);
  const [first, second, ...others] = (await sessions()).map(({ value }) => value.id);
  expect(second).not.toBe(first);
  expect(others).toEqual([]);
});

it('a whole rollout of a task without a sandbox is graded by what the server answered; if that is down, it has no reward', async () => {
  const sources = { far: { environment: 'far', options: {} } };
  const agent = { maxTurns: 5, toolTimeoutSeconds: 20 };
  const here = await openHere(sources, undefined, agent, {}, {}, () => undefined);
  try {
    const { signal } = new AbortController();
    expect(await here.rollOut('far-train-0', 'oracle', signal)).toMatchObject({ phase: 'graded', reward: 1 });
    expect(await here.rollOut('far-train-1', 'empty', signal)).toMatchObject({ phase: 'graded', reward: 0 });
    server.options = {
      instead: (_, { method }, response) => {
        if (method === 'tools/call') response.writeHead(503).end();
        return method === 'tools/call';
      },
    };
    const end = await here.rollOut('far-train-2', 'oracle', signal);
    expect(end).toMatchObject({ phase: 'failed', failure: 'service-unavailable' });
  } finally {
    await here.close();
  }
});
