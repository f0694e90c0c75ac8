/**
 * Hunts agents that see each other's messages, lose their own, or never end: sub-agents and summaries, through the
 * workflow's reducer and the real activities, with a scripted engine. Not asserted: what a restart of the workflow
 * does; see test/workflows/rollout/nested-rollout.test.ts.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { defineAgent } from '../../agents/agent.ts';
import { SUMMARY_REQUEST } from '../../agents/summary.ts';
import { defineTool } from '../../agents/tools/registry.ts';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { transitionsOf } from '../../trainer/data/merge-transitions.ts';
import type { Command } from '../../protocol/command.ts';
import { trajectoryText } from '../../cli/train/format.ts';
import { placeOf } from '../../protocol/frames.ts';
import { turnsOf } from '../../store/read-records.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import type { Task, Work } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { GenerateResult } from '../../trainer/generate-request.ts';
import { mergeTransitions } from '../../trainer/data/merge-transitions.ts';
import { initialState, type LoopState, reduce } from '../../workflows/rollout/rollout-loop.ts';
import { characterTokenizer, finishCall, saying } from './scripted-parts.ts';
import { attemptOf, inActivity, turnInput, useWorld } from './world.ts';

const world = useWorld();
const { signal } = new AbortController();
let task: Partial<Task>;
let graded: Work[];
let wants: () => unknown;
beforeEach(() => {
  [task, graded, wants] = [{}, [], () => ({ do: 'answer' })];
});

defineTool({
  name: 'look',
  description: 'Looks.',
  parameters: {},
  required: [],
  runs: 'worker',
  effect: 'none',
  run: async () => await Promise.resolve('seen'),
});
defineAgent({ name: 'wanting', reads: 'calls', decide: () => wants() as Command });
defineEnvironment({
  name: 'nested',
  open: async () =>
    await Promise.resolve({
      digest: 'nested',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Go.' }],
          tools: ['delegate', 'finish'],
          agents: {
            shopper: {
              description: 'shops.',
              messages: [{ role: 'system', content: 'You shop.' }],
              tools: ['look', 'delegate', 'finish'],
            },
            talker: { description: 'talks.', tools: [] },
          },
          grade: async (_ctx, work) => {
            graded.push(work);
            return await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' });
          },
          ...task,
        }),
    }),
});

const attempt = { ...attemptOf(), task: 'nested-train-0' };
const callOf = (name: string, given: Record<string, string> = {}) =>
  `<function=${name}>\n${Object.entries(given)
    .map(([key, value]) => `<parameter=${key}>${value}</parameter>\n`)
    .join('')}</function>`;
const delegate = (agent: string, prompt: string) => callOf('delegate', { agent, prompt });
const summarise = (summary: string) => callOf('next_with_summary', { summary });
/** A message with its reasoning, which a summary leaves out. */
const THOUGHT = '<think>Hm.</think>All seen.';
const answer = (text: string) => callOf('finish', { answer: text });

interface Played {
  readonly state: LoopState;
  /** What the engine saw in each turn. */
  readonly saw: readonly string[];
}

/** Plays the policy's texts until the rollout is graded. `maxContextTokens`: an id is a character. */
async function play(
  texts: ReadonlyArray<string | GenerateResult>,
  over: { maxContextTokens?: number; maxSegments?: number } = {},
): Promise<Played> {
  const { store, provider, deps, engine } = world.now;
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const { maxContextTokens = 10_000, maxSegments = 3 } = over;
  const limits = { maxTurns: 12, maxAttempts: 1, maxRestores: 0 };
  engine.answers = texts.map((text) => (typeof text === 'string' ? saying(text) : text));
  let state = initialState;
  await inActivity(() => createInitActivities(place).prepare(attempt));
  state = reduce(state, { type: 'prepared', sandboxless: true }, limits);
  while (state.phase === 'generate' || state.phase === 'act') {
    const { turn } = state;
    if (state.phase === 'generate') {
      const given = turnInput(turn, { ...placeOf(state.frames), task: attempt.task, maxContextTokens });
      const input = { ...given, limits: { maxTurns: 12, maxDepth: 2, maxSegments } };
      const { kind, calls, agent } = await generateTurn(input, { ...deps, tasks }, signal);
      state = reduce(state, { type: 'generated', kind, calls, ...(agent !== undefined && { agent }) }, limits);
    } else {
      const input = { ...attempt, turn, toolTimeoutSeconds: 7 };
      const { unfinished = false, done } = await inActivity(() => createAgentRunActivities(place).agentRun(input));
      state = reduce(state, { type: 'acted', unfinished, ...(done && { done }) }, limits);
    }
  }
  const { finish = 'max-turns', turn: turns } = state;
  await inActivity(() => createRewardActivities(place).computeReward({ ...attempt, finish, turns }));
  return { state, saw: engine.requests.map(({ tokens }) => characterTokenizer().decode(tokens)) };
}

const sequences = async () =>
  mergeTransitions(transitionsOf(await turnsOf(world.now.store, attempt))).map(({ tokens, mask }) => ({
    text: characterTokenizer().decode(tokens),
    sampled: mask.reduce((sum, one) => sum + one, 0),
  }));

describe('a sub-agent', () => {
  it('sees its own messages alone, and its answer is the observation of its caller', async () => {
    const texts = [delegate('shopper', 'Buy figs.'), callOf('look'), answer('Bought.'), answer('Done.')];
    const { state, saw } = await play(texts);
    expect(state).toMatchObject({ turn: 4, finish: 'finish-tool' });
    expect(saw[0]).toBe('user:Go.$\nassistant:');
    expect(saw[1]).toBe('system:You shop.$\nuser:Buy figs.$\nassistant:');
    expect(saw[2]).toBe(`${saw[1]}${callOf('look')}$\ntool:seen$\nassistant:`);
    expect(saw[3]).toBe(`${saw[0]}${texts[0]}$\ntool:Bought.$\nassistant:`);
    expect(graded).toMatchObject([{ answer: 'Done.', finish: 'finish-tool', turns: 4 }]);
    const path = ['shopper@1'];
    expect(graded[0]?.transcript.map(({ role, content, agentPath }) => [role, content, agentPath])).toEqual([
      ['user', 'Go.', undefined],
      ['assistant', '', undefined],
      ['system', 'You shop.', path],
      ['user', 'Buy figs.', path],
      ['assistant', '', path],
      ['tool', 'seen', path],
      ['assistant', '', path],
      ['tool', 'Bought.', undefined],
      ['assistant', '', undefined],
    ]);
    const { store } = world.now;
    const trajectory = await trajectoryOf(attempt.rollout, { store, tasks: new TaskLoader(store) });
    expect(trajectory?.messages).toEqual(graded[0]?.transcript);
    if (trajectory) expect(trajectoryText(trajectory)).toContain('\n   ── tool · shopper\n   seen\n');
  });

  it('is trained on as a sequence of its own; its caller stays one sequence', async () => {
    const texts = [delegate('shopper', 'Buy figs.'), callOf('look'), answer('Bought.'), answer('Done.')];
    const { saw } = await play(texts);
    const sampled = (i: number) => (texts[i]?.length ?? 0) + 1;
    expect(await sequences()).toEqual([
      { text: `${saw[3]}${texts[3]}$`, sampled: sampled(0) + sampled(3) },
      { text: `${saw[2]}${texts[2]}$`, sampled: sampled(1) + sampled(2) },
    ]);
  });

  it('calls another one below itself, down to the limit of depth', async () => {
    const texts = [
      delegate('shopper', 'one'),
      delegate('shopper', 'two'),
      delegate('talker', 'three'),
      answer('deep'),
      answer('less deep'),
      answer('out'),
    ];
    const { saw } = await play(texts);
    // The deepest one has no such tool.
    expect(saw[3]).toContain('tool:Error: there is no tool "delegate"; use look, finish.$');
    expect(saw[4]).toContain('user:one$');
    expect(saw[4]).toContain('tool:deep$');
    expect(saw[5]).toContain('tool:less deep$');
    const turns = await turnsOf(world.now.store, attempt);
    expect(turns.map(({ agentPath = [] }) => agentPath.join('/'))).toEqual([
      '',
      'shopper@1',
      'shopper@1/shopper@2',
      'shopper@1/shopper@2',
      'shopper@1',
      '',
    ]);
  });

  it('that ends without an answer is reported to its caller, who continues', async () => {
    const cut = saying('y'.repeat(50), 'length');
    const { state, saw } = await play([delegate('talker', 'Hi.'), cut, answer('so be it')]);
    expect(saw[2]).toContain('tool:The agent talker ended without an answer: its message was too long.$');
    expect(state).toMatchObject({ finish: 'finish-tool', turn: 3 });
  });

  it('is called after the calls before it, and those after it do not run', async () => {
    task = { tools: ['look', 'delegate', 'finish'] };
    const three = `${callOf('look')}\n${delegate('talker', 'Hi.')}\n${callOf('look')}`;
    const { saw } = await play([three, 'Hello.', finishCall]);
    expect(saw[1]).toBe('user:Hi.$\nassistant:');
    expect(saw[2]).toContain('$\ntool:seen$\ntool:Hello.$\ntool:Error: not run, since it comes after delegate.$');
  });

  it('is not called if a call before it was refused, or if its name or its prompt is wrong', async () => {
    task = { tools: ['look', 'delegate', 'finish'] };
    const refused = `${callOf('looks')}\n${delegate('talker', 'Hi.')}`;
    const { saw } = await play([
      refused,
      delegate('walker', 'Hi.'),
      callOf('delegate', { agent: 'talker' }),
      delegate('talker', ' '),
      finishCall,
    ]);
    expect(saw[1]).toContain('tool:Error: not called, since a call before it failed.$');
    expect(saw[2]).toContain('agent "walker": must be one of shopper, talker.');
    expect(saw[3]).toContain('delegate needs the parameter prompt.');
    expect(saw[4]).toContain('Error: prompt: say what the agent must do.');
  });
});

describe('a summary', () => {
  const found = { tools: ['look', 'next_with_summary', 'finish'] } as const;

  it('opens a segment with the opening and the summary, and both segments are trained on', async () => {
    task = { ...found, messages: [{ role: 'user', content: `Go. ${'x'.repeat(50)}` }] };
    const texts = [callOf('look'), summarise('Saw it.'), callOf('look'), finishCall];
    const { saw } = await play(texts);
    const opening = `user:Go. ${'x'.repeat(50)}\n\nSummary of the work so far:\nSaw it.\n\nContinue from there.$\nassistant:`;
    expect(saw[2]).toBe(opening);
    expect(saw[3]).toBe(`${opening}${callOf('look')}$\ntool:seen$\nassistant:`);
    expect((await sequences()).map(({ text }) => text)).toEqual([`${saw[1]}${texts[1]}$`, `${saw[3]}${finishCall}$`]);
    expect(graded[0]?.transcript.map(({ segment }) => segment)).toEqual([...Array(4).fill(undefined), 2, 2, 2, 2]);
  });

  it('that makes the context no smaller ends it', async () => {
    task = { ...found, agent: { type: 'wanting' } };
    wants = () => ({ do: 'summarise', summary: 'x'.repeat(100) });
    expect((await play(['Hi.'])).state).toMatchObject({ finish: 'context', turn: 1 });
  });

  it('above the limit of segments ends the context', async () => {
    task = { ...found, agent: { type: 'wanting' } };
    wants = () => ({ do: 'summarise', summary: 's' });
    const { state } = await play(['x'.repeat(200), 'x'.repeat(200)], { maxSegments: 2 });
    expect(state).toMatchObject({ finish: 'context', turn: 2 });
  });

  it('is refused beside other calls, and above the limit of segments', async () => {
    task = { ...found, messages: [{ role: 'user', content: 'Go.' }] };
    const both = `${callOf('look')}\n${summarise('s')}`;
    const texts = [both, summarise('s'), `${'x'.repeat(90)}${summarise('t')}`, finishCall];
    const { saw } = await play(texts, { maxSegments: 2 });
    expect(saw[1]).toContain('tool:Error: not summarised: call it alone in a message.$\ntool:Error: not run.$');
    expect(saw[2]).toContain('Summary of the work so far:\ns\n');
    expect(saw[3]).toContain('tool:Error: not summarised: 2 segments are the limit; continue without a summary.$');
  });

  it('is asked for when the context is long enough, and is a sampled turn', async () => {
    task = { ...found, agent: { type: 'tools', options: { summary: { atTokens: 40 } } } };
    const { saw } = await play([callOf('look'), THOUGHT, finishCall]);
    expect(saw[1]).toContain(`tool:seen$\nuser:${SUMMARY_REQUEST}$\nassistant:`);
    expect(saw[2]).toContain('Summary of the work so far:\nAll seen.\n');
    expect((await sequences()).map(({ sampled }) => sampled)).toEqual([
      callOf('look').length + THOUGHT.length + 2,
      finishCall.length + 1,
    ]);
  });

  it('that is empty is asked for once more, and then ends the context', async () => {
    task = { ...found, agent: { type: 'tools', options: { summary: { atTokens: 40 } } } };
    const { state, saw } = await play([callOf('look'), ' ', callOf('look')]);
    expect(saw[2]).toContain('user:The summary is empty or too long.');
    expect(state).toMatchObject({ finish: 'context', turn: 3 });
  });

  it('of a sub-agent leaves its caller alone', async () => {
    task = { agents: { shopper: { description: 'shops.', tools: ['look', 'next_with_summary', 'finish'] } } };
    const texts = [
      delegate('shopper', `Buy. ${'x'.repeat(40)}`),
      callOf('look'),
      summarise('Saw.'),
      answer('ok'),
      finishCall,
    ];
    const { saw } = await play(texts);
    expect(saw[3]).toContain(`user:Buy. ${'x'.repeat(40)}\n\nSummary of the work so far:\nSaw.`);
    expect(saw[4]).toBe(`${saw[0]}${texts[0]}$\ntool:ok$\nassistant:`);
    expect(await sequences()).toHaveLength(3);
  });
});

describe('a sub-agent with message: step', () => {
  const seller = { type: 'tools', options: { message: 'step' } };
  const stepped: Array<readonly [string, readonly string[] | undefined, unknown]> = [];
  const market = (doneAt = Number.POSITIVE_INFINITY): Partial<Task> => {
    stepped.length = 0;
    return {
      agent: { type: 'tools', options: { message: 'step' } },
      agents: {
        seller: { description: 'sells.', tools: ['finish'], agent: seller },
        talker: { description: 'talks.', tools: [] },
      },
      start: async () => await Promise.resolve({ state: 0 }),
      step: async ({ agentPath }, state, message) => {
        stepped.push([message, agentPath, state]);
        const count = Number(state) + 1;
        const messages = [{ role: 'user' as const, content: `Offer ${count}.` }];
        return await Promise.resolve({ state: count, messages, done: count >= doneAt, reward: count / 10 });
      },
    };
  };
  const path = ['seller@2'];

  it('speaks to the environment, which knows who speaks, and gives its answer to its caller', async () => {
    task = market();
    const texts = [
      'Hello.',
      delegate('seller', 'Sell figs.'),
      'Figs?',
      'Cheap figs?',
      answer('Sold.'),
      answer('Done.'),
    ];
    const { state, saw } = await play(texts);
    expect(state).toMatchObject({ turn: 6, finish: 'finish-tool' });
    expect(stepped).toEqual([
      ['Hello.', undefined, 0],
      ['Figs?', path, 1],
      ['Cheap figs?', path, 2],
    ]);
    expect(saw[4]).toBe(
      'user:Sell figs.$\nassistant:Figs?$\nuser:Offer 2.$\nassistant:Cheap figs?$\nuser:Offer 3.$\nassistant:',
    );
    expect(saw[5]).toBe(`${saw[1]}${texts[1]}$\ntool:Sold.$\nassistant:`);
    expect(graded).toMatchObject([{ answer: 'Done.', state: 3, turnRewards: [0.1, 0, 0.2, 0.3, 0, 0] }]);
    const offers = graded[0]?.transcript.filter(({ role, content }) => role === 'user' && content.startsWith('Offer'));
    expect(offers?.map(({ agentPath }) => agentPath)).toEqual([undefined, path, path]);
    expect((await sequences()).map(({ text }) => text.includes('Offer 2.'))).toEqual([false, true]);
  });

  it('ends the rollout with the environment’s done', async () => {
    task = market(2);
    const { state } = await play(['Hello.', delegate('seller', 'Sell figs.'), 'Figs?']);
    expect(state).toMatchObject({ turn: 3, finish: 'done' });
  });

  it('is none without that option: its message is its answer', async () => {
    task = market();
    const { saw } = await play([delegate('talker', 'Talk.'), 'Bla.', answer('Done.')]);
    expect(saw[2]).toContain('$\ntool:Bla.$\nassistant:');
    expect(stepped).toEqual([]);
  });
});

describe('what an agent decides', () => {
  const asked = { type: 'wanting' } as const;

  it.each([
    [undefined, 'returned nothing: command: '],
    [{ do: 'dance' }, 'do: '],
    [{ do: 'reply' }, 'message: '],
    [{ do: 'act' }, 'the turn has no calls to run'],
    [{ do: 'step' }, 'this is a sub-agent without the option message: step'],
    [
      { do: 'delegate', name: 'x', agent: { type: 'texts' }, tools: [], messages: [{ role: 'user', content: '' }] },
      'texts',
    ],
    [
      { do: 'delegate', name: 'x', agent: { type: 'external' }, tools: [], messages: [{ role: 'user', content: '' }] },
      'a program cannot be a sub-agent',
    ],
    [
      { do: 'delegate', name: 'x', agent: { type: 'text' }, tools: ['rm'], messages: [{ role: 'user', content: '' }] },
      'tools has "rm": give tools that the task or one of its agents lists (delegate, finish, look)',
    ],
    [{ do: 'delegate', name: 'x', agent: { type: 'text' }, tools: [], messages: [{ role: 'robot' }] }, 'messages.0'],
  ])('%j fails with its name', async (command, expected) => {
    task = { agent: asked };
    wants = () => command;
    const error: unknown = await play(['Hi.']).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'AgentFailed' });
    expect(String(error)).toContain('the agent wanting: decide returned');
    expect(String(error)).toContain(expected);
  });

  it('lets an agent call a sub-agent without any call of the policy', async () => {
    task = { agent: asked };
    const messages = [{ role: 'user', content: 'Think.' }];
    const commands = [{ do: 'delegate', name: 'x', agent: { type: 'text' }, tools: [], messages }, { do: 'answer' }];
    wants = () => commands.shift();
    const { saw } = await play(['Hi.', 'Thought.', 'So.']);
    expect(saw[1]).toBe('user:Think.$\nassistant:');
    expect(saw[2]).toContain('Hi.$\nuser:Answer of the agent x:\nThought.$');
  });
});

describe('a task', () => {
  const load = async () => (await new TaskLoader(world.now.store).load(attempt)).task;

  it.each<[Partial<Task>, string]>([
    [{ agents: {} }, 'agents'],
    [{ agents: { 'a b': { description: 'x', tools: [] } } }, 'agents.a b'],
    [{ agents: { a: { description: '', tools: [] } } }, 'agents.a.description'],
    [{ agents: { a: { description: 'x', tools: [], agent: { type: 'external' } } } }, 'agents.a.agent.type'],
    [{ agents: { a: { description: 'x', tools: ['nope'] } } }, 'nope'],
    [
      { agents: { a: { description: 'x', tools: [], agent: { type: 'text', options: { x: 1 } } } } },
      'agents.a.agent.options',
    ],
  ])('%j is refused before it runs', async (wrong, field) => {
    task = wrong;
    await expect(load()).rejects.toThrow(field);
  });
});
