/**
 * Requests of OpenAI's `/v1/responses`. Takes: a body of `readWritten`, and the items of the response that it
 * continues. Gives: its `ChatQuery`, its items, and the fields that its response repeats. A field that would change the
 * answer and cannot be honoured is refused by name.
 */

import { z } from 'zod';
import type { ToolSchema } from '../../protocol/message.ts';
import { memberOf, plainOf } from '../../protocol/written-json.ts';
import { type ChatQuery, toolChoiceOf } from './chat.ts';
import {
  alternatives,
  count,
  effort,
  flag,
  harmless,
  metadata,
  neutral,
  readAs,
  refuse,
  samplingFields,
  samplingOf,
  unionByType,
  verbosity,
} from './fields.ts';
import { toolAsWritten } from './openai-chat.ts';
import { inNamespace, inputSchema, messagesOf, type ResponseItem } from './responses-items.ts';

const described = z
  .string()
  .nullish()
  .transform((text) => text ?? '');
const functionTool = z.object({
  type: z.literal('function'),
  name: z.string().min(1),
  description: described,
  parameters: z.record(z.string(), z.unknown()).nullish(),
});
const customTool = z.object({
  type: z.literal('custom'),
  name: z.string().min(1),
  description: described,
  format: z.object({ type: z.literal('text') }).nullish(),
});
const namespaceTool = z.object({
  type: z.literal('namespace'),
  name: z.string().min(1),
  description: described,
  tools: z.array(unionByType([functionTool, customTool], 'tool')),
});
/** Tools that OpenAI runs itself. They are not offered to the policy, so it never uses one. */
const HOSTED = ['web_search', 'web_search_preview', 'web_search_2025_08_26', 'web_search_preview_2025_03_11'] as const;
const hostedTool = z.object({ type: z.enum(HOSTED) });

const choiceOfTool = z.object({
  type: z.enum(['function', 'custom']),
  name: z.string(),
  namespace: z.string().nullish(),
});

const SUMMARIES = ['auto', 'concise', 'detailed', 'none'] as const;

const schema = z.strictObject({
  ...samplingFields,
  model: z.string(),
  input: inputSchema,
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  max_output_tokens: count.nullish(),
  tools: z
    .array(unionByType([functionTool, customTool, namespaceTool, hostedTool], 'tool'))
    .nullish()
    .transform((tools) => tools ?? []),
  tool_choice: z
    .union([z.enum(['auto', 'none', 'required']), choiceOfTool], 'give auto, none, required, or a function by its name')
    .nullish()
    .transform((choice) => choice ?? 'auto'),
  parallel_tool_calls: flag(true),
  stream: flag(false),
  stream_options: z.strictObject({ include_obfuscation: harmless }).nullish(),
  store: flag(true),
  text: z.strictObject({ format: z.strictObject({ type: z.literal('text') }).nullish(), verbosity }).nullish(),
  top_logprobs: alternatives.nullish(),
  include: z.array(z.string()).nullish(),
  /** The policy thinks as it was trained to. */
  reasoning: z.looseObject({ effort, summary: z.enum(SUMMARIES).nullish() }).nullish(),
  metadata,
  truncation: neutral('disabled'),
  background: neutral(false),
  /** They limit tools that OpenAI runs. */
  max_tool_calls: harmless,
  user: harmless,
  safety_identifier: harmless,
  prompt_cache_key: harmless,
  prompt_cache_retention: harmless,
  prompt_cache_options: harmless,
  service_tier: harmless,
  client_metadata: harmless,
});

type Body = z.output<typeof schema>;

/** How the API names a tool of the policy. */
export interface ToolName {
  readonly kind: 'function' | 'custom';
  readonly name: string;
  readonly namespace?: string;
}

/** What the response says of its request. Plain JSON. */
export interface ResponseFields {
  /** Members of the response that repeat the request's. */
  readonly repeated: Readonly<Record<string, unknown>>;
  /** By the policy's name of the tool. */
  readonly toolNames: Readonly<Record<string, ToolName>>;
  readonly sealsReasoning: boolean;
}

export interface ResponseRequest {
  readonly query: ChatQuery;
  readonly fields: ResponseFields;
  readonly isStored: boolean;
  /** The items before the answer: those that it continues, and its own. */
  readonly items: readonly ResponseItem[];
}

interface Tools {
  readonly schemas: ToolSchema[];
  readonly names: Map<string, ToolName>;
}

type Offered = z.output<typeof functionTool> | z.output<typeof customTool>;

/** A custom tool takes one text. */
const TEXT_INPUT = {
  type: 'object',
  properties: { input: { type: 'string', description: 'The whole input of the tool, as a text.' } },
  required: ['input'],
};

function addTool(tools: Tools, tool: Offered, written: unknown, at: string, namespace?: string): void {
  const name = inNamespace(namespace, tool.name);
  if (tools.names.has(name)) refuse(`${at}.name`, `two tools have the name ${JSON.stringify(name.slice(0, 80))}`);
  tools.names.set(name, { kind: tool.type, name: tool.name, ...(namespace === undefined ? {} : { namespace }) });
  const parameters = tool.type === 'custom' ? TEXT_INPUT : toolAsWritten(written, ['parameters']);
  tools.schemas.push({ type: 'function', function: { name, description: tool.description, parameters } });
}

function toolsOf({ tools: given }: Body, written: unknown): Tools {
  const tools: Tools = { schemas: [], names: new Map() };
  const all = (written ?? []) as readonly unknown[];
  for (const [i, tool] of given.entries()) {
    if (tool.type === 'namespace')
      tool.tools.forEach((one, k) => {
        const inside = (memberOf(all[i], 'tools') ?? []) as readonly unknown[];
        addTool(tools, one, inside[k], `tools.${i}.tools.${k}`, tool.name);
      });
    else if (tool.type === 'function' || tool.type === 'custom') addTool(tools, tool, all[i], `tools.${i}`);
  }
  return tools;
}

/** Values of `include` that this server can add, or that concern tools that it does not run. */
const INCLUDED =
  /^(?:reasoning\.encrypted_content|message\.output_text\.logprobs|(?:web_search|file_search|code_interpreter|computer)[\w.]*)$/u;

function checkInclude({ include }: Body): void {
  const i = (include ?? []).findIndex((one) => !INCLUDED.test(one));
  if (i >= 0) refuse(`include.${i}`, 'this server cannot include it');
}

/** Only what was read: a stream repeats it three times. */
function repeatedOf(request: Body): Record<string, unknown> {
  const { effort = null, summary = null } = request.reasoning ?? {};
  return {
    tools: request.tools,
    tool_choice: request.tool_choice,
    reasoning: { effort, summary },
    text: request.text ?? { format: { type: 'text' } },
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: request.metadata ?? {},
    parallel_tool_calls: request.parallel_tool_calls,
    previous_response_id: request.previous_response_id ?? null,
    store: request.store,
    temperature: request.temperature,
    top_p: request.top_p,
    top_logprobs: request.top_logprobs ?? 0,
    truncation: 'disabled',
    background: false,
    service_tier: 'default',
    user: null,
  };
}

/** The id of the response that a request continues. Never throws: `readResponse` says what is wrong. */
export function previousOf(body: unknown): string | undefined {
  const id = memberOf(body, 'previous_response_id');
  return typeof id === 'string' ? id : undefined;
}

/** `earlier`: the items of the response that it continues. Errors: `ApiError`. */
export function readResponse(body: unknown, earlier: readonly ResponseItem[] = []): ResponseRequest {
  const request = readAs(schema, plainOf(body));
  checkInclude(request);
  const { schemas, names } = toolsOf(request, memberOf(body, 'tools'));
  const { tool_choice: choice } = request;
  const asked = typeof choice === 'string' ? choice : { name: inNamespace(choice.namespace, choice.name) };
  const include = request.include ?? [];
  const isAsked = include.includes('message.output_text.logprobs') || (request.top_logprobs ?? 0) > 0;
  const query: ChatQuery = {
    model: request.model,
    messages: messagesOf(request.instructions ?? undefined, earlier, request.input),
    tools: asked === 'none' ? [] : schemas,
    toolChoice: toolChoiceOf(asked, schemas),
    oneCall: !request.parallel_tool_calls,
    prefill: '',
    sampling: samplingOf(request),
    maxTokens: request.max_output_tokens ?? undefined,
    overflow: 'refuse',
    stops: [],
    seed: request.seed ?? undefined,
    stream: request.stream,
    topLogprobs: isAsked ? (request.top_logprobs ?? 0) : undefined,
  };
  return {
    query,
    fields: {
      repeated: repeatedOf(request),
      toolNames: Object.fromEntries(names),
      sealsReasoning: include.includes('reasoning.encrypted_content'),
    },
    isStored: request.store,
    items: [...earlier, ...request.input],
  };
}
