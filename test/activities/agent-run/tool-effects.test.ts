/**
 * Hunts a call that takes effect twice or not at all, a secret in a record, and a tool's mistake that is blamed on the
 * policy: tools in the worker and in the sandbox, by what their calls change. Sandboxes are scripted.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../../agents/tools/registry.ts';
import type { ToolChoice } from '../../../agents/tools/toolbox.ts';
import type { ToolContext, WorkerServices } from '../../../agents/tools/tool.ts';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { OUTCOME_UNKNOWN } from '../../../activities/agent-run/run-in-worker.ts';
import { Secrets } from '../../../activities/agent-run/secrets.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { SandboxRequest, Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { characterTokenizer, saying } from '../scripted-parts.ts';
import { attemptOf, dyingAt, inActivity, turnInput, useWorld } from '../world.ts';

const world = useWorld();
const attempt = { ...attemptOf(), task: 'effective-train-0' };
const first = `${attempt.rollout}#1`;
const NAMES: readonly string[] = ['look_up', 'order', 'note', 'peek', 'bash'];

type Context = ToolContext & WorkerServices & { readonly options: unknown };
/** The bodies of the tools, and what they were called with. */
let lookUp: (context: Context) => Promise<string>;
let order: (context: Context) => Promise<string>;
let ran: string[];
let tools: readonly ToolChoice[];
let sandboxes: Record<string, SandboxRequest>;

const what = { parameters: { what: { type: 'string', description: 'What.' } }, required: ['what'] } as const;
defineTool({
  ...what,
  name: 'look_up',
  description: 'Looks it up.',
  runs: 'worker',
  effect: 'none',
  options: z.strictObject({ most: z.int().default(3) }),
  run: async (args, context) => {
    ran.push(`look_up ${args.text('what')} ${context.options.most}`);
    return lookUp(context);
  },
});
defineTool({
  ...what,
  name: 'order',
  description: 'Orders it.',
  runs: 'worker',
  effect: 'outside',
  run: async (args, context) => {
    ran.push(`order ${args.text('what')}`);
    return order(context);
  },
});
for (const [name, effect] of [
  ['note', 'sandbox'],
  ['peek', 'none'],
] as const)
  defineTool({
    ...what,
    name,
    effect,
    description: 'In the sandbox.',
    run: async (args, sandbox, { callId, timeoutMs }) => {
      const command = `${name} ${args.text('what')}`;
      ran.push(command);
      if (effect === 'none') return (await sandbox.read('b', 1)).kind;
      return (await sandbox.exec({ callId, command, timeoutMs, outputLimit: 100 })).output;
    },
  });
defineEnvironment({
  name: 'effective',
  open: async () =>
    await Promise.resolve({
      digest: 'effective',
      splits: { train: 10 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Do it.' }],
          tools,
          sandboxes,
          agent: { type: 'tools' },
          grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
        }),
    }),
});

beforeEach(() => {
  lookUp = order = async () => await Promise.resolve('done');
  [ran, tools, sandboxes] = [[], NAMES, {}];
});

const box = { workdir: '/w', files: [], env: {}, limits: { memoryMiB: 1, processes: 1, diskMiB: 1 } };

function parts(store = world.now.store, secrets = new Secrets({}), signal = new AbortController().signal) {
  const { provider } = world.now;
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60, secrets };
  const [agent, init] = [createAgentRunActivities(place), createInitActivities(place)];
  const at = (sandbox?: string) => (sandbox === undefined ? {} : { sandbox, host: 'here' });
  return {
    prepare: () => inActivity(() => init.prepare(attempt)),
    act: (turn: number, sandbox?: string, toolTimeoutSeconds = 7) =>
      inActivity(() => agent.agentRun({ ...attempt, ...at(sandbox), turn, toolTimeoutSeconds }), signal),
    restore: (restore: number) => inActivity(() => init.restoreSandbox({ ...attempt, restore, toolTimeoutSeconds: 7 })),
  };
}

async function called(turn: number, ...calls: Array<readonly [name: string, what: unknown]>): Promise<void> {
  await world.now.store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls: calls.map(([name, given]) => ({ name, arguments: { what: given } })) },
    command: { do: 'act' },
  });
}
const answers = async (turn: number) =>
  (await world.now.store.get<ActRecord>(keys.act(attempt, turn)))?.messages.map(({ content }) => content);

describe('a tool in the worker', () => {
  it('runs where there is no sandbox, with its call’s names, the store and the task’s options', async () => {
    tools = [{ name: 'look_up', options: { most: 5 } }, 'bash'];
    let given: Partial<Context> = {};
    lookUp = async (context) => {
      given = context;
      const ref = await context.objects.put(Buffer.from('page'));
      return `${Buffer.from(await context.objects.get(ref)).toString()} of ${ref.slice(0, 7)}`;
    };
    await parts().prepare();
    await called(1, ['look_up', 'x'], ['bash', 'ls'], ['order', 'y']);
    await parts().act(1);
    expect(await answers(1)).toEqual([
      'page of sha256:',
      'Error: bash cannot run: this task has no sandbox.',
      'Error: there is no tool "order"; use look_up, bash.',
    ]);
    const { rollout } = attempt;
    expect(given).toMatchObject({ rollout, attempt: 1, turn: 1, callId: `${rollout}#1/1/0`, timeoutMs: 7000 });
    expect(ran).toEqual(['look_up x 5']);
    expect(world.now.provider.log).toEqual([]);
  });

  it('that changes nothing runs beside the others of its message, and the answers are in the order of the calls', async () => {
    tools = ['look_up'];
    const { promise: both, resolve: bothRun } = Promise.withResolvers<void>();
    // Each waits for the other: one after the other, they would never end.
    lookUp = async ({ callId }) => {
      if (ran.length === 2) bothRun();
      await both;
      return callId.slice(-1);
    };
    await parts().prepare();
    await called(1, ['look_up', 'x'], ['look_up', 'y']);
    await parts().act(1);
    expect(await answers(1)).toEqual(['0', '1']);
  });

  it('beside one that changes something runs in its place', async () => {
    tools = ['look_up', 'order'];
    const ends: string[] = [];
    const slowly = async (name: string) => {
      const begun = ran.length;
      await new Promise((done) => setTimeout(done, 10));
      expect(ran.length).toBe(begun);
      ends.push(name);
      return name;
    };
    lookUp = () => slowly('look_up');
    order = () => slowly('order');
    await parts().prepare();
    await called(1, ['look_up', 'x'], ['order', 'y'], ['look_up', 'z']);
    await parts().act(1);
    expect(ends).toEqual(['look_up', 'order', 'look_up']);
  });

  it('that fails beside others fails the turn when all have ended, and those that ended are not run again', async () => {
    tools = ['look_up'];
    let fails = true;
    let slowEnded = false;
    lookUp = async ({ callId }) => {
      if (callId.endsWith('/0') && fails) throw new TypeError('broken');
      await new Promise((done) => setTimeout(done, 20));
      slowEnded = true;
      return callId.slice(-1);
    };
    await parts().prepare();
    await called(1, ['look_up', 'x'], ['look_up', 'y']);
    await expect(parts().act(1)).rejects.toMatchObject({ type: 'ToolFailed' });
    expect(slowEnded).toBe(true);
    fails = false;
    await parts().act(1);
    expect(ran).toEqual(['look_up x 3', 'look_up y 3', 'look_up x 3']);
    expect(await answers(1)).toEqual(['0', '1']);
  });

  it('is offered in the order of the task, with its schema in the prompt', async () => {
    tools = ['order', { name: 'look_up' }];
    const { deps, engine, store } = world.now;
    engine.answers[0] = saying('<function=order>\n<parameter=what>tea</parameter>\n</function>');
    const shown: string[] = [];
    const tokenizer = characterTokenizer();
    const tokenizerOf = async () =>
      await Promise.resolve({
        ...tokenizer,
        renderChat: (...[messages, schemas, options]: Parameters<typeof tokenizer.renderChat>) => {
          shown.push(schemas.map(({ function: { name } }) => name).join());
          return tokenizer.renderChat(messages, schemas, options);
        },
      });
    const turn = { ...turnInput(1), task: attempt.task };
    const { signal } = new AbortController();
    expect(
      await generateTurn(
        turn,
        { ...deps, tasks: new TaskLoader(store), ...embeddedOnly({ ...world.now.parts, tokenizerOf }) },
        signal,
      ),
    ).toMatchObject({ kind: 'act', calls: 1 });
    expect(shown[0]).toBe('order,look_up');
  });

  it('that is called with wrong arguments is not run, and its options are checked before', async () => {
    await called(1, ['order', 5], ['look_up', 'x']);
    await parts().act(1);
    expect(await answers(1)).toEqual(['Error: what 5: must be a text.', 'done']);
    expect(ran).toEqual(['look_up x 3']);
    tools = [{ name: 'look_up', options: { most: 'all' } }];
    await expect(new TaskLoader().load(attempt)).rejects.toThrow(
      /^tools\.look_up\.options\.most: "all" cannot be used/,
    );
    tools = [{ name: 'order', options: { most: 1 } }];
    await expect(new TaskLoader().load(attempt)).rejects.toThrow('remove it: order takes no options');
    tools = ['order', { name: 'order' }];
    await expect(new TaskLoader().load(attempt)).rejects.toThrow('tools: "order" cannot be used; list each tool once');
  });

  it('that does not end is answered at its deadline, and its signal is aborted', async () => {
    const reasons: unknown[] = [];
    const never = ({ signal }: Context) =>
      new Promise<string>(() => {
        signal.addEventListener('abort', () => reasons.push((signal.reason as Error).name));
      });
    lookUp = order = never;
    await called(1, ['look_up', 'x'], ['order', 'y']);
    await parts().act(1, undefined, 0.05);
    expect(await answers(1)).toEqual(['[timed out after 0.05 s]', `[timed out after 0.05 s]\n${OUTCOME_UNKNOWN}`]);
    expect(reasons).toEqual(['TimeoutError', 'TimeoutError']);
  });

  it('whose answer no longer counts is not answered at all', async () => {
    const over = new AbortController();
    lookUp = () => {
      over.abort(new Error('given up'));
      return new Promise<string>(() => undefined);
    };
    await called(1, ['look_up', 'x']);
    await expect(parts(world.now.store, undefined, over.signal).act(1)).rejects.toThrow('given up');
    expect(await world.now.store.list(keys.answers(attempt))).toEqual([]);
  });

  it('that throws is the tool’s failure, with its place', async () => {
    lookUp = () => Promise.reject(new RangeError('no such page'));
    await called(1, ['look_up', 'x']);
    await expect(parts().act(1)).rejects.toMatchObject({
      type: 'ToolFailed',
      nonRetryable: false,
      message: expect.stringMatching(
        /^the tool look_up threw RangeError: no such page \(.*tool-effects\.test\.ts:\d+\)/,
      ) as string,
    });
  });
});

describe('secrets', () => {
  const env = { LONGHAUL_SECRETS: 'SEARCH_KEY, EMPTY', SEARCH_KEY: 'k&y "1"', OTHER: 'other value' };

  it('reach a tool by name, and neither a record nor an error', async () => {
    lookUp = async ({ secret }) => {
      const key = secret('SEARCH_KEY');
      return await Promise.resolve(`${key} ${encodeURIComponent(key)} ${JSON.stringify({ key })} k`);
    };
    await called(1, ['look_up', 'x']);
    await parts(world.now.store, new Secrets(env)).act(1);
    expect(await answers(1)).toEqual(['[secret SEARCH_KEY] [secret SEARCH_KEY] {"key":"[secret SEARCH_KEY]"} k']);
    lookUp = ({ secret }) =>
      Promise.reject(new Error(`GET /?key=${secret('SEARCH_KEY')}`, { cause: new Error(secret('SEARCH_KEY')) }));
    await called(2, ['look_up', 'x']);
    const thrown = await parts(world.now.store, new Secrets(env))
      .act(2)
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({
      type: 'ToolFailed',
      message: expect.stringContaining('GET /?key=[secret SEARCH_KEY] (') as string,
    });
    const { stack = '', cause } = thrown as Error;
    expect(`${stack} ${String(cause)}`).not.toContain(env.SEARCH_KEY);
  });

  it.each([
    ['OTHER', /^LONGHAUL_SECRETS: "SEARCH_KEY,EMPTY" cannot be used; add OTHER/],
    ['EMPTY', /^EMPTY is missing; set it in the environment of the workers/],
  ])('that are not allowed or not set are an error that names %s', async (name, message) => {
    lookUp = async ({ secret }) => await Promise.resolve(secret(name));
    await called(1, ['look_up', 'x']);
    await expect(parts(world.now.store, new Secrets(env)).act(1)).rejects.toMatchObject({
      type: 'UserInputError',
      message: expect.stringMatching(message) as string,
    });
  });
});

describe('a call with effects outside', () => {
  it('that began and has no record is answered as unknown, and never runs twice', async () => {
    await called(1, ['order', 'tea'], ['look_up', 'x']);
    const { store } = world.now;
    await expect(parts(dyingAt(store, 'putOnce', 'answer:')).act(1)).rejects.toThrow('killed here');
    await parts().act(1);
    expect(await answers(1)).toEqual([OUTCOME_UNKNOWN, 'done']);
    expect(ran).toEqual(['order tea', 'look_up x 3']);
    expect(await store.repeats()).toMatchObject({ tool: 0 });
  });

  it('that throws is not repeated either', async () => {
    order = () => Promise.reject(new Error('connection lost'));
    await called(1, ['order', 'tea']);
    await expect(parts().act(1)).rejects.toMatchObject({ type: 'ToolFailed' });
    await parts().act(1);
    expect(await answers(1)).toEqual([OUTCOME_UNKNOWN]);
    expect(ran).toEqual(['order tea']);
  });

  it('of two executions at once runs in one', async () => {
    const waiting = Promise.withResolvers<string>();
    order = () => waiting.promise;
    await called(1, ['order', 'tea']);
    const early = parts().act(1);
    await expect.poll(() => ran).toEqual(['order tea']);
    await parts().act(1);
    waiting.resolve('ordered');
    await early;
    expect(await answers(1)).toEqual([OUTCOME_UNKNOWN]);
    expect(ran).toEqual(['order tea']);
  });

  it('a call without effects runs again instead', async () => {
    await called(1, ['look_up', 'x']);
    await expect(parts(dyingAt(world.now.store, 'putOnce', 'answer:')).act(1)).rejects.toThrow('killed here');
    await parts().act(1);
    expect(await answers(1)).toEqual(['done']);
    expect(ran).toEqual(['look_up x 3', 'look_up x 3']);
  });
});

describe('a sandbox that replaces a lost one', () => {
  beforeEach(() => {
    sandboxes = { main: box };
  });

  it('gets the calls again that change a sandbox, and no other ones', async () => {
    await parts().prepare();
    await called(1, ['note', 'a'], ['peek', 'b'], ['order', 'c'], ['look_up', 'd'], ['note', 'e']);
    await parts().act(1, first);
    await world.now.provider.destroy(first);
    ran = [];
    await parts().restore(1);
    expect(ran).toEqual(['note a', 'note e']);
    expect(await answers(1)).toEqual(['ran note a\n', 'missing', 'done', 'done', 'ran note e\n']);
  });

  it('is not compared for calls that change none', async () => {
    await parts().prepare();
    await called(1, ['peek', 'b'], ['order', 'c']);
    await parts().act(1, first);
    expect(await world.now.store.get<ActRecord>(keys.act(attempt, 1))).toMatchObject({ untouched: true });
    await world.now.provider.destroy(first);
    ran = [];
    world.now.provider.drifts = () => true;
    await parts().restore(1);
    expect(ran).toEqual([]);
  });

  it('in the middle of a turn gets those alone that its turn has answered', async () => {
    await parts().prepare();
    await called(1, ['order', 'c'], ['peek', 'b'], ['note', 'a'], ['note', 'e']);
    const { store, provider } = world.now;
    await expect(parts(dyingAt(store, 'putOnce', `${keys.answer(attempt, 1, 3)}`)).act(1, first)).rejects.toThrow();
    await provider.destroy(first);
    await parts().restore(1);
    ran = [];
    await parts().act(1, `${first}~1`);
    expect(ran).toEqual(['note a', 'note e']);
    expect(await answers(1)).toEqual(['done', 'missing', 'ran note a\n', 'ran note e\n']);
  });
});
