/**
 * One turn of the policy: ids in, ids out. The turn is sampled once under its key; a repeated call returns the turn
 * that was recorded, and what was sampled is never re-encoded.
 */

import { malformedCallHint, noCallHint } from '../agents/hints.ts';
import type { ToolSchema } from '../agents/message.ts';
import { parseToolCalls, type ParsedTurn, type ToolCallFormat, toolCallFormatOf } from '../agents/parse-tool-calls.ts';
import { type ChatTokenizer, renderContinuation, renderPrompt } from '../agents/render-conversation.ts';
import { toolRegistry } from '../agents/tools/registry.ts';
import type { Store } from '../store/store.ts';
import { environmentOf } from '../tasks/registry.ts';
import type { Engine } from '../trainer/engine.ts';
import type { GenerateInput, GenerateOutcome } from '../workflows/types.ts';
import { UserInputError } from './failures.ts';
import { actsOf, answerTo, contextAfter, type GenerateRecord, keys, spoken, turnsOf } from './records.ts';

/** A policy's tokenizer with what the agent loop asks of it. */
export interface PolicyTokenizer extends ChatTokenizer {
  readonly chatTemplate: string;
  readonly stopTokenIds: readonly number[];
}

export interface GenerateDeps {
  readonly store: Store;
  readonly engine: Engine;
  readonly tokenizerOf: (policyDir: string) => Promise<PolicyTokenizer>;
}

function schemasOf(tools: readonly string[]): ToolSchema[] {
  return tools.map((name) => {
    const tool = toolRegistry.get(name);
    if (!tool) throw new TypeError(`No tool named ${name}; known: ${[...toolRegistry.keys()].join(', ')}`);
    return tool.schema;
  });
}

/** A finished turn as it was read, with a hint where it held no usable call. What cannot be read is kept as it was said. */
function readTurn(text: string, format: ToolCallFormat): Pick<GenerateRecord, 'parsed' | 'hint'> {
  const parsed = parseToolCalls(text, format);
  if (parsed.kind === 'calls') return { parsed };
  if (parsed.kind === 'no-call') return { parsed, hint: noCallHint(format) };
  return { parsed: { ...parsed, content: text }, hint: malformedCallHint(format, parsed.error) };
}

interface Prompt {
  readonly appended: readonly number[];
  readonly reset: boolean;
  readonly context: readonly number[];
}

async function promptOf(input: GenerateInput, tokenizer: PolicyTokenizer, store: Store): Promise<Prompt> {
  const { messages, tools } = environmentOf(input.task).load(input.task);
  const schemas = schemasOf(tools);
  const turns = await turnsOf(store, input);
  const earlier = turns.slice(0, input.turn - 1);
  const last = earlier.at(-1);
  if (!last) {
    const appended = renderPrompt(tokenizer, messages, schemas);
    return { appended, reset: false, context: appended };
  }
  const acts = await actsOf(store, input);
  const added = answerTo(last, acts.get(input.turn - 1));
  const past = contextAfter(earlier);
  const appended = renderContinuation(tokenizer, messages, added, schemas);
  if (appended) return { appended, reset: false, context: [...past, ...appended] };
  const whole = earlier.flatMap((turn, i) => [spoken(turn), ...answerTo(turn, acts.get(i + 1))]);
  const afresh = renderPrompt(tokenizer, [...messages, ...whole], schemas);
  return { appended: afresh, reset: true, context: afresh };
}

async function sample(input: GenerateInput, deps: GenerateDeps, signal: AbortSignal): Promise<GenerateRecord> {
  const tokenizer = await deps.tokenizerOf(input.policy.dir);
  const { appended, reset, context } = await promptOf(input, tokenizer, deps.store);
  const room = input.maxContextTokens - context.length;
  const nothing: ParsedTurn = { kind: 'no-call', content: '' };
  const { version } = input.policy;
  if (room <= 0) {
    return { version, appended, reset, sampled: [], logprobs: [], end: 'context-full', parsed: nothing };
  }
  const { maxTokens } = input.sampling;
  const { tokens, logprobs, finishReason } = await deps.engine.generate(
    {
      policy: input.policy,
      cacheKey: input.rollout,
      tokens: context,
      sampling: { ...input.sampling, maxTokens: Math.min(maxTokens, room) },
      stopTokenIds: tokenizer.stopTokenIds,
      noiseKey: input.noiseKey,
    },
    signal,
  );
  const stopped = finishReason === 'stop';
  const text = tokenizer.decode(stopped ? tokens.slice(0, -1) : tokens);
  return {
    version,
    appended,
    reset,
    sampled: tokens,
    logprobs,
    end: stopped ? 'stop' : room <= maxTokens ? 'context-full' : 'length',
    ...(stopped ? readTurn(text, toolCallFormatOf(tokenizer.chatTemplate)) : { parsed: { kind: 'no-call', content: text } }),
  };
}

function lineOf({ parsed, end }: GenerateRecord): string {
  if (end !== 'stop') return end;
  if (parsed.kind !== 'calls') return parsed.kind;
  const calls = parsed.calls.map(({ name, arguments: given }) => {
    const words = Object.values(given).map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    return `${name} ${words.join(' ')}`.trim().replaceAll(/\s+/g, ' ').slice(0, 80);
  });
  return calls.join('; ').slice(0, 160);
}

function kindOf({ parsed, end }: GenerateRecord): GenerateOutcome['kind'] {
  if (end === 'context-full') return 'context-full';
  if (end === 'length') return 'response-cut';
  if (parsed.kind !== 'calls') return 'hint';
  return parsed.calls.some((call) => call.name === 'finish') ? 'finish' : 'calls';
}

function callsToRun({ parsed }: GenerateRecord): number {
  if (parsed.kind !== 'calls') return 0;
  const finish = parsed.calls.findIndex((call) => call.name === 'finish');
  return finish < 0 ? parsed.calls.length : finish;
}

export async function generateTurn(input: GenerateInput, deps: GenerateDeps, signal: AbortSignal): Promise<GenerateOutcome> {
  const { store } = deps;
  const key = keys.generate(input, input.turn);
  let record = await store.get<GenerateRecord>(key);
  if (!record) {
    await store.begin(`model:${key}`);
    record = await store.putOnce(key, await sample(input, deps, signal));
  }
  if (record.version !== input.policy.version) {
    const remedy = `${key} was sampled by version ${record.version}; give another policy a rollout id of its own`;
    throw new UserInputError('policy.version', input.policy.version, remedy);
  }
  const { run, rollout, attempt } = input;
  const at = new Date().toISOString();
  await store.append([{ run, rollout, attempt, event: 'turn', at, detail: String(input.turn) }]);
  const turns = (await turnsOf(store, input)).slice(0, input.turn);
  return {
    kind: kindOf(record),
    calls: callsToRun(record),
    contextTokens: contextAfter(turns).length,
    sampledTokens: record.sampled.length,
    line: lineOf(record),
  };
}
