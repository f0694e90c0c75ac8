/**
 * Requests of Anthropic's `/v1/messages` and `/v1/messages/count_tokens`. Takes: a body of `readWritten`. Gives: its
 * `ChatQuery`. A field that would change the answer and cannot be honoured is refused by name.
 */

import { z } from 'zod';
import { type Message, type ToolCall, toolCallOf, type ToolSchema } from '../../protocol/message.ts';
import { memberOf, plainOf } from '../../protocol/written-json.ts';
import { type ChatQuery, toolChoiceOf, withOneSystem, withReasoning } from './chat.ts';
import {
  count,
  effort,
  flag,
  harmless,
  neutral,
  readAs,
  refuse,
  samplingFields,
  samplingOf,
  stopText,
  textOrParts,
  unionByType,
} from './fields.ts';
import { toolAsWritten } from './openai-chat.ts';

const text = z.object({ type: z.literal('text'), text: z.string() });
const thinking = z.object({ type: z.literal('thinking'), thinking: z.string() });
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: z.string().min(1),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const joined = (parts: ReadonlyArray<{ readonly text: string }>) => parts.map((part) => part.text).join('\n\n');
const texts = textOrParts(unionByType([text], 'block'), 'text').transform(joined);
const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: texts.nullish().transform((value) => value ?? ''),
  is_error: flag(false),
});
const message = z.discriminatedUnion('role', [
  z.object({ role: z.literal('user'), content: textOrParts(unionByType([text, toolResult], 'block'), 'text') }),
  z.object({
    role: z.literal('assistant'),
    content: textOrParts(unionByType([text, thinking, toolUse], 'block'), 'text'),
  }),
  z.object({ role: z.literal('system'), content: texts }),
]);

const tool = z.object({
  /** Other types are tools that Anthropic defines: their schemas are not in the request. */
  type: z.literal('custom', 'this server takes tools with an input_schema alone').nullish(),
  name: z.string().min(1),
  description: z
    .string()
    .nullish()
    .transform((value) => value ?? ''),
  input_schema: z.record(z.string(), z.unknown()),
});

const parallel = { disable_parallel_tool_use: flag(false) };
const toolChoice = unionByType(
  [
    z.object({ type: z.literal('auto'), ...parallel }),
    z.object({ type: z.literal('any'), ...parallel }),
    z.object({ type: z.literal('none') }),
    z.object({ type: z.literal('tool'), name: z.string(), ...parallel }),
  ],
  'tool_choice',
);

const counted = {
  model: z.string(),
  messages: z.array(message).min(1),
  system: texts.nullish(),
  tools: z
    .array(tool)
    .nullish()
    .transform((tools) => tools ?? []),
  tool_choice: toolChoice.nullish(),
  /** The policy thinks as it was trained to; its thinking is always returned. */
  thinking: z.object({ type: z.enum(['enabled', 'disabled', 'adaptive']), budget_tokens: count.nullish() }).nullish(),
  output_config: z.strictObject({ effort, format: z.null().optional() }).nullish(),
  context_management: z.strictObject({ edits: z.array(z.never()).max(0).optional() }).nullish(),
  mcp_servers: z.array(z.never()).max(0).nullish(),
  container: z.null().optional(),
  cache_control: harmless,
  speed: neutral('standard'),
  betas: harmless,
};
const countSchema = z.strictObject(counted);
const { seed, temperature, top_p, top_k, min_p, repetition_penalty } = samplingFields;
const messagesSchema = z.strictObject({
  ...counted,
  max_tokens: count,
  temperature,
  top_p,
  top_k,
  min_p,
  repetition_penalty,
  seed,
  stop_sequences: z
    .array(stopText)
    .max(64)
    .nullish()
    .transform((stops) => stops ?? []),
  stream: flag(false),
  metadata: harmless,
  service_tier: harmless,
  inference_geo: harmless,
  user_profile_id: harmless,
  workspace_id: harmless,
  diagnostics: harmless,
});

type Counted = z.output<typeof countSchema>;
type Given = Counted['messages'][number];

/** The input of a call with its numbers as they were written. */
function writtenInput(body: unknown, i: number, k: number): object {
  const blocks = memberOf((memberOf(body, 'messages') as readonly unknown[])[i], 'content');
  return memberOf((blocks as readonly unknown[])[k], 'input') as object;
}

function assistantOf({ content }: Given & { role: 'assistant' }, inputOf: (k: number) => object): Message {
  const thoughts: string[] = [];
  const said: string[] = [];
  const toolCalls: ToolCall[] = [];
  content.forEach((block, k) => {
    if (block.type === 'thinking') thoughts.push(block.thinking);
    else if (block.type === 'text') said.push(block.text);
    else toolCalls.push(toolCallOf(block.name, inputOf(k)));
  });
  const whole = withReasoning(thoughts.join('\n\n'), said.join('\n\n'));
  return { role: 'assistant', content: whole, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
}

/** Results and texts of a user's message, in order. Texts that follow each other are one message. */
function userMessages(
  { content }: Given & { role: 'user' },
  names: ReadonlyMap<string, string>,
  at: string,
): Message[] {
  const messages: Message[] = [];
  let open: string[] = [];
  const close = () => {
    if (open.length > 0) messages.push({ role: 'user', content: open.join('\n\n') });
    open = [];
  };
  content.forEach((block, k) => {
    if (block.type === 'text') return void open.push(block.text);
    const name = names.get(block.tool_use_id);
    if (name === undefined)
      refuse(
        `${at}.content.${k}.tool_use_id`,
        `no tool_use before it has the id ${JSON.stringify(block.tool_use_id.slice(0, 80))}`,
      );
    close();
    const isMute = block.is_error && block.content === '';
    messages.push({ role: 'tool', name, content: isMute ? 'Error' : block.content });
    return undefined;
  });
  close();
  return messages.length > 0 ? messages : [{ role: 'user', content: '' }];
}

function messagesOf({ messages: given, system }: Counted, body: unknown): Message[] {
  const names = new Map<string, string>();
  const messages = given.flatMap((one, i): Message[] => {
    if (one.role === 'system') return [{ role: 'system', content: one.content }];
    if (one.role === 'user') return userMessages(one, names, `messages.${i}`);
    for (const block of one.content) if (block.type === 'tool_use') names.set(block.id, block.name);
    return [assistantOf(one, (k) => writtenInput(body, i, k))];
  });
  return withOneSystem(
    system === undefined || system === null ? messages : [{ role: 'system', content: system }, ...messages],
  );
}

/** An assistant's text at the end is continued. */
function prefillOf(messages: readonly Message[]): string {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return '';
  const at = 'messages';
  if (last.toolCalls !== undefined) refuse(at, 'a tool_use at the end needs its tool_result');
  if (last.content.trimEnd() !== last.content) refuse(at, 'the text to continue may not end with a space or line end');
  return last.content;
}

function queryOf(
  request: Counted,
  body: unknown,
): Omit<ChatQuery, 'sampling' | 'maxTokens' | 'stops' | 'seed' | 'stream'> {
  const written = (memberOf(body, 'tools') ?? []) as readonly unknown[];
  const tools = request.tools.map(({ name, description }, i): ToolSchema => ({
    type: 'function',
    function: { name, description, parameters: toolAsWritten(written[i], ['input_schema']) },
  }));
  const choice = request.tool_choice ?? { type: 'auto' as const, disable_parallel_tool_use: false };
  const asked = choice.type === 'tool' ? { name: choice.name } : choice.type === 'any' ? 'required' : choice.type;
  const all = messagesOf(request, body);
  const prefill = prefillOf(all);
  return {
    model: request.model,
    messages: prefill === '' ? all : all.slice(0, -1),
    tools: asked === 'none' ? [] : tools,
    toolChoice: toolChoiceOf(asked, tools),
    oneCall: choice.type !== 'none' && choice.disable_parallel_tool_use,
    prefill,
    overflow: 'fewer',
    topLogprobs: undefined,
  };
}

/** Errors: `ApiError`. */
export function readMessages(body: unknown): ChatQuery {
  const request = readAs(messagesSchema, plainOf(body));
  return {
    ...queryOf(request, body),
    sampling: samplingOf(request),
    maxTokens: request.max_tokens,
    stops: request.stop_sequences,
    seed: request.seed ?? undefined,
    stream: request.stream,
  };
}

/** A query that is only counted. Errors: `ApiError`. */
export function readCountTokens(body: unknown): ChatQuery {
  const sampling = samplingOf({ temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 });
  const request = readAs(countSchema, plainOf(body));
  return { ...queryOf(request, body), sampling, maxTokens: undefined, stops: [], seed: undefined, stream: false };
}
