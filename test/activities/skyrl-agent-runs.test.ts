/**
 * Scripted answers through the agent loop, beside SkyRL-Agent's ReAct loop: the same calls with the same ids and the
 * same room for tokens, the same training data. Reducer, activities, agent, tools and codec are the real ones; only the
 * texts by which a policy is helped are SkyRL's. Not asserted: messages after the last turn, which nobody reads.
 */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import type { PolicyTokenizer } from '../../activities/generate/sample-ids.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { defineAgent } from '../../agents/agent.ts';
import { defineTool } from '../../agents/tools/registry.ts';
import { toolsAgent } from '../../agents/types/tools.ts';
import { placeOf } from '../../protocol/frames.ts';
import type { Message } from '../../protocol/message.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { answerIn } from '../../protocol/transcript.ts';
import { toolProfileOf } from '../../reports/export/skyrl/metrics.ts';
import { skyrlReasonOf } from '../../reports/export/skyrl/finish-reasons.ts';
import { sequencesOf } from '../../reports/export/skyrl/output.ts';
import { turnsOf } from '../../store/read-records.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { transitionsOf } from '../../trainer/data/merge-transitions.ts';
import { templateMessage } from '../../trainer/tokenizer/chat-template.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { initialState, type LoopState, reduce, stageOf } from '../../workflows/rollout/rollout-loop.ts';
import { readVectors, vectorsFolder } from '../support/vectors.ts';
import { attemptOf, inActivity, turnInput, useWorld } from './world.ts';

interface Run {
  readonly name: string;
  readonly tokenizer: string;
  readonly tools: readonly string[];
  readonly instruction: ReadonlyArray<{ readonly role: 'system' | 'user'; readonly content: string }>;
  readonly config: {
    readonly max_iterations: number;
    readonly max_prompt_length: number;
    readonly enable_turn_reminder: boolean;
    readonly early_step_threshold: number;
    readonly enable_thinking: boolean;
  };
  readonly llm_calls: ReadonlyArray<{
    readonly input_ids: readonly number[];
    readonly max_tokens: number;
    readonly response: {
      readonly text: string;
      readonly output_tokens: readonly number[];
      readonly logprobs: readonly number[] | null;
      readonly finish_reason: 'stop' | 'length';
    };
  }>;
  readonly expected: {
    readonly finish_reason: string;
    readonly result: string | null;
    readonly num_transitions: number;
    readonly datums: ReadonlyArray<{
      readonly input_tokens: readonly number[];
      readonly response_tokens: readonly number[];
      readonly response_logprobs: readonly number[];
      readonly response_mask: readonly number[];
    }>;
    readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }>;
    readonly tool_profile: { readonly tool_calls_total: number; readonly tool_calls_by_name: Record<string, number> };
  };
}

const { agent_runs: vectors } = readVectors<{
  readonly agent_runs: {
    readonly texts_used_in_place_of_guidance: Readonly<Record<string, string>>;
    readonly runs: readonly Run[];
  };
}>('transitions.json');
const texts = vectors.texts_used_in_place_of_guidance;
const textOf = (name: string): string => texts[name] ?? '';

/** SkyRL's reminder before step `step`, counted from 1. */
function reminder(step: number, { config }: Run): string {
  const left = config.max_iterations - step + 1;
  if (!config.enable_turn_reminder || left < 1) return '';
  if (left === 1) return textOf('last');
  if (step > config.early_step_threshold) return textOf('steps_remaining').replace('{remaining_steps}', String(left));
  return textOf('early').replace('{min_steps}', String(config.early_step_threshold - step));
}

/** Python's `json.dumps` of one text by its name. */
const pythonJson = (name: string, value: string): string =>
  `{"${name}": ${JSON.stringify(value).replaceAll(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)}}`;

defineTool({
  name: 'echo',
  description: 'Repeats.',
  parameters: { text: { type: 'string', description: 'What.' }, times: { type: 'integer', description: 'How often.' } },
  required: ['text'],
  runs: 'worker',
  effect: 'none',
  // SkyRL gives tools their texts without the spaces around them.
  run: async (args) =>
    await Promise.resolve(
      pythonJson(
        'out',
        args
          .text('text')
          .trim()
          .repeat(args.integer('times') ?? 1),
      ),
    ),
});
for (const name of ['boom', 'reset'])
  defineTool({
    name,
    description: 'Fails.',
    parameters: { summary: { type: 'string', description: 'What was found.' } },
    required: [],
    runs: 'worker',
    effect: 'none',
    run: async () => await Promise.resolve('Error: kaput'),
  });

let running: Run;

defineAgent({
  name: 'skyrl-react',
  reads: 'calls',
  decide(view) {
    const { parsed, turn } = view;
    const call = parsed.kind === 'calls' ? parsed.calls[0] : undefined;
    if (call?.name === 'reset') return { do: 'summarise', summary: String(call.arguments['summary']) };
    const command = toolsAgent.decide(view, {});
    const next = reminder(turn + 1, running);
    if (command.do === 'reply')
      return { ...command, message: textOf(parsed.kind === 'malformed' ? 'parse_error' : 'no_tool_call') + next };
    return command.do === 'act' && next !== '' ? { ...command, message: next.trimStart() } : command;
  },
});

defineEnvironment({
  name: 'react',
  open: async () =>
    await Promise.resolve({
      digest: 'react',
      splits: { train: 1000 },
      load: async (_split: string, index: number) => {
        const one = vectors.runs[index];
        if (one === undefined) throw new Error(`there is no run ${index}`);
        const last = one.instruction.length - 1;
        return await Promise.resolve({
          messages: one.instruction.map((message, i) =>
            i === last ? { ...message, content: message.content + reminder(1, one) } : message,
          ),
          tools: [...one.tools],
          agent: { type: one.tools.length > 0 ? 'skyrl-react' : 'text' },
          grade: async () => await Promise.reject(new Error('it is not graded')),
        });
      },
    }),
});

const SUMMARY = /Summary of the work so far:\n([\s\S]*)\n\nContinue from there\.$/u;

/** SkyRL's texts in place of those by which this project answers a call that did not run, or begins anew. */
function asSkyrl(messages: readonly Message[]): Message[] {
  const texts = messages.map((message): Message => {
    if (message.role !== 'user') return message;
    const content = message.content
      .replace(/^EXECUTION RESULT of \[[^\]]*\]:\nError: there is no tool [^\n]*/u, textOf('parse_error'))
      .replace(/^EXECUTION RESULT of \[[^\]]*\]:\nError: kaput/u, textOf('tool_failed'))
      .replace(/^EXECUTION RESULT of \[[^\]]*\]/u, 'EXECUTION RESULT of [function]');
    return { ...message, content };
  });
  const at = texts.findIndex(({ content }) => SUMMARY.test(content));
  if (at < 0) return texts;
  const [, summary = ''] = SUMMARY.exec(texts[at]?.content ?? '') ?? [];
  return [{ role: 'system', content: 'S2' }, { role: 'user', content: `memory: ${summary}` }, ...texts.slice(at + 1)];
}

async function tokenizerOf({ tokenizer: name, config }: Run): Promise<PolicyTokenizer> {
  const tokenizer = await loadTokenizer(join(vectorsFolder, 'models', name));
  return {
    ...tokenizer,
    renderChat: (messages, _tools, { addGenerationPrompt }) =>
      tokenizer.template.render({
        messages: asSkyrl(messages).map(templateMessage),
        tools: null,
        variables: { add_generation_prompt: addGenerationPrompt, enable_thinking: config.enable_thinking },
      }),
  };
}

const world = useWorld();
const { signal } = new AbortController();

/** The rollout of a run, by the reducer and the activities of rollouts. */
async function rollOut(run: Run, index: number): Promise<{ state: LoopState; turns: readonly GenerateRecord[] }> {
  const { store, provider, deps, engine, parts } = world.now;
  const tokenizer = await tokenizerOf(run);
  Object.assign(parts, { tokenizerOf: async () => await Promise.resolve(tokenizer) });
  engine.answers = run.llm_calls.map(({ response }) => ({
    tokens: [...response.output_tokens],
    logprobs: [...(response.logprobs ?? [])],
    finishReason: response.finish_reason,
  }));
  const tasks = new TaskLoader(store);
  const attempt = { ...attemptOf(), task: `react-train-${index}` };
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const limits = { maxTurns: run.config.max_iterations, maxAttempts: 1, maxRestores: 0 };
  let state = initialState;
  let opening: { readonly segment: number; readonly tokens: number } | undefined;
  while (stageOf(state) !== 'done' && state.phase !== 'grade') {
    if (state.phase === 'prepare') {
      const card = await inActivity(() => createInitActivities(place).prepare(attempt));
      state = reduce(state, { type: 'prepared', sandboxless: card.sandbox === null }, limits);
      continue;
    }
    if (state.phase === 'act') {
      const { turn } = state;
      await inActivity(() => createAgentRunActivities(place).agentRun({ ...attempt, turn, toolTimeoutSeconds: 9 }));
      state = reduce(state, { type: 'acted' }, limits);
      continue;
    }
    const at = placeOf(state.frames);
    // SkyRL's budget is of the tokens after the first prompt of a history.
    const segment = at.segment ?? 1;
    if (opening?.segment !== segment)
      opening = { segment, tokens: run.llm_calls[engine.requests.length]?.input_ids.length ?? 0 };
    const { kind, calls } = await generateTurn(
      {
        ...turnInput(state.turn),
        ...at,
        task: attempt.task,
        maxContextTokens: opening.tokens + run.config.max_prompt_length,
        limits: { maxTurns: limits.maxTurns, maxDepth: 1, maxSegments: 10 },
        sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 1_000_000 },
        conversation: { codec: 'skyrl-text', preamble: 'never', reasoning: 'keep' },
      },
      { ...deps, tasks },
      signal,
    );
    state = reduce(state, { type: 'generated', kind, calls }, limits);
  }
  return { state, turns: await turnsOf(store, attempt) };
}

it.each(vectors.runs.map((run, i) => [run.name, run, i] as const))('%s', async (_name, run, index) => {
  running = run;
  const { expected, llm_calls: calls } = run;
  const { state, turns } = await rollOut(run, index);
  const { requests } = world.now.engine;
  expect(requests.map(({ tokens }) => tokens)).toEqual(calls.map(({ input_ids: ids }) => ids));
  expect(requests.map(({ sampling }) => sampling.maxTokens)).toEqual(calls.map(({ max_tokens: most }) => most));
  expect(skyrlReasonOf({ status: 'graded', finish: state.finish ?? null, failure: null })).toBe(expected.finish_reason);
  const transitions = transitionsOf(turns);
  expect(transitions).toHaveLength(expected.num_transitions);
  expect(sequencesOf(transitions)).toEqual(
    expected.datums.map((datum) => ({
      prompt: datum.input_tokens,
      response: datum.response_tokens,
      mask: datum.response_mask,
      // JSON has no -0.
      logprobs: datum.response_logprobs.map((value) => value + 0),
    })),
  );
  const last = turns.findLast(({ end }) => end === 'stop');
  if (expected.result !== null) expect(last && answerIn(last)).toBe(expected.result);
  const said = expected.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content);
  const tokenizer = await tokenizerOf(run);
  const sampled = transitions.map(({ action }) =>
    tokenizer.decode(action.at(-1) === tokenizer.stopTokenIds[0] ? action.slice(0, -1) : action),
  );
  expect(sampled.slice(-said.length)).toEqual(said);
  // A call that failed, or whose tool is unknown, is not counted by SkyRL.
  const { byName } = toolProfileOf(turns);
  const counted = Object.entries(byName).filter(([name]) => name !== 'boom' && run.tools.includes(name));
  expect(Object.fromEntries(counted)).toEqual(expected.tool_profile.tool_calls_by_name);
});
