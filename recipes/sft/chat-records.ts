/**
 * Records of supervised training: chats in OpenAI's form (`messages`, and `tools` if the assistant may call some), or
 * pairs of a prompt and an answer. Each becomes one chat, with the assistant's messages that are trained.
 */

import { z } from 'zod';
import { type Message, readArguments, type ToolCall, toolCallOf, type ToolSchema } from '../../protocol/message.ts';

export interface ChatTurn {
  readonly message: Message;
  /** The assistant's reasoning, for templates that print it. */
  readonly reasoning?: string;
  /** True for messages of the assistant whose tokens are trained. */
  readonly trained: boolean;
}

export interface Chat {
  readonly turns: readonly ChatTurn[];
  readonly tools: readonly ToolSchema[];
}

/** Names of a record's fields, and which messages of the assistant are trained. */
export interface RecordForm {
  readonly messages: string;
  readonly prompt: string;
  readonly answer: string;
  readonly loss: 'all' | 'last';
}

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z
  .union([z.string(), z.array(textPart)], 'give a text')
  .nullish()
  .transform((value) => (typeof value === 'string' ? value : (value ?? []).map(({ text }) => text).join('')));

const argumentsOf = z.union([z.string(), z.record(z.string(), z.unknown())]).transform((given, context) => {
  const read = typeof given === 'string' ? readArguments(given) : given;
  if (typeof read !== 'string') return read;
  context.addIssue({ code: 'custom', message: `give a JSON object: it is ${read}` });
  return z.NEVER;
});
const functionCall = z.object({ name: z.string().min(1), arguments: argumentsOf });
const call = z.object({ id: z.string().nullish(), function: functionCall });

const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer', 'user']), content }),
  z.object({
    role: z.literal('assistant'),
    content,
    tool_calls: z.array(call).nullish(),
    reasoning_content: z.string().nullish(),
    weight: z.union([z.literal(0), z.literal(1)], 'give 0 (not trained) or 1').nullish(),
  }),
  z.object({ role: z.literal('tool'), content, name: z.string().nullish(), tool_call_id: z.string().nullish() }),
]);
type RawMessage = z.output<typeof message>;

const described = z.object({
  name: z.string().min(1),
  description: z
    .string()
    .nullish()
    .transform((text) => text ?? ''),
  parameters: z
    .record(z.string(), z.unknown())
    .nullish()
    .transform((parameters) => parameters ?? {}),
});
const tool = z
  .union([z.object({ function: described }), described], 'give a function with its name and parameters')
  .transform((given) => ({ type: 'function' as const, function: 'function' in given ? given.function : given }));

/** Data sets keep lists of objects as JSON texts too, since tables have one form for all rows. */
const fromText = (value: unknown): unknown => {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
};
const listOf = <T>(one: z.ZodType<T>) => z.preprocess(fromText, z.array(one));

const messages = listOf(message).refine((list) => list.length > 0, 'give at least one message');
const tools = listOf(tool);
const textOrMessages = z.union([z.string().min(1), z.array(message).min(1)], 'give a text, or a list of messages');

/** The name of the tool that a message answers: by the call's id, else the next call that has no answer. */
class CallNames {
  readonly #byId = new Map<string, string>();
  #open: string[] = [];

  asked(calls: readonly z.output<typeof call>[]): void {
    this.#open = calls.map(({ function: { name } }) => name);
    for (const { id, function: asked } of calls) if (typeof id === 'string') this.#byId.set(id, asked.name);
  }

  answered(id: string | null | undefined): string | undefined {
    const next = this.#open.shift();
    return (typeof id === 'string' ? this.#byId.get(id) : undefined) ?? next;
  }
}

const callOf = ({ function: { name, arguments: given } }: z.output<typeof call>): ToolCall => toolCallOf(name, given);

function turnOf(raw: RawMessage, names: CallNames): ChatTurn {
  if (raw.role === 'assistant') {
    const calls = raw.tool_calls ?? [];
    names.asked(calls);
    return {
      message: { role: 'assistant', content: raw.content, ...(calls.length > 0 && { toolCalls: calls.map(callOf) }) },
      ...(typeof raw.reasoning_content === 'string' && { reasoning: raw.reasoning_content }),
      trained: raw.weight !== 0,
    };
  }
  if (raw.role !== 'tool')
    return { message: { role: raw.role === 'user' ? 'user' : 'system', content: raw.content }, trained: false };
  const name = names.answered(raw.tool_call_id);
  return { message: { role: 'tool', name: raw.name ?? name ?? 'tool', content: raw.content }, trained: false };
}

function turnsOf(list: readonly RawMessage[], loss: RecordForm['loss']): ChatTurn[] {
  const names = new CallNames();
  const turns = list.map((raw) => turnOf(raw, names));
  if (loss === 'all') return turns;
  const last = turns.findLastIndex(({ message: { role } }) => role === 'assistant');
  return turns.map((turn, i) => ({ ...turn, trained: turn.trained && i === last }));
}

/** Why a chat cannot be trained on, and the index of the message at fault; `undefined` if it can. */
function problemOf(turns: readonly ChatTurn[]): { readonly at?: number; readonly reason: string } | undefined {
  if (turns[0]?.message.role === 'assistant') return { at: 0, reason: "begin with another role's message" };
  const empty = turns.findIndex(
    ({ message: { role, content: text, ...rest }, trained, reasoning }) =>
      role === 'assistant' && trained && text === '' && !('toolCalls' in rest) && reasoning === undefined,
  );
  if (empty >= 0) return { at: empty, reason: 'the message is empty; give content or tool_calls, or weight: 0' };
  if (!turns.some(({ trained }) => trained)) return { reason: 'no message of the assistant is trained' };
  return undefined;
}

type Parsed = { readonly list: readonly RawMessage[]; readonly field: string };

const asMessages = (value: z.output<typeof textOrMessages>, role: 'user' | 'assistant'): readonly RawMessage[] =>
  typeof value === 'string' ? [{ role, content: value }] : value;

/** The schema of a record. Its issues have the field's path in the record. */
export function chatSchema(form: RecordForm): z.ZodType<Chat> {
  return z.looseObject({}).transform((row, context): Chat => {
    const read = <T>(schema: z.ZodType<T>, field: string): T | undefined => {
      const parsed = schema.safeParse(row[field]);
      if (parsed.success) return parsed.data;
      for (const issue of parsed.error.issues)
        context.addIssue({ code: 'custom', path: [field, ...issue.path], message: issue.message });
      return undefined;
    };
    const listed = (): Parsed | undefined => {
      if (row[form.messages] !== undefined && row[form.messages] !== null) {
        const list = read(messages, form.messages);
        return list && { list, field: form.messages };
      }
      const [prompt, answer] = [read(textOrMessages, form.prompt), read(textOrMessages, form.answer)];
      if (prompt === undefined || answer === undefined) return undefined;
      return { list: [...asMessages(prompt, 'user'), ...asMessages(answer, 'assistant')], field: form.answer };
    };
    const found = listed();
    const known = row['tools'] === undefined || row['tools'] === null ? [] : read(tools, 'tools');
    if (found === undefined || known === undefined) return z.NEVER;
    const turns = turnsOf(found.list, form.loss);
    const problem = problemOf(turns);
    if (problem === undefined) return { turns, tools: known };
    const path = [found.field, ...(problem.at === undefined || found.field !== form.messages ? [] : [problem.at])];
    context.addIssue({ code: 'custom', path, message: problem.reason });
    return z.NEVER;
  });
}
