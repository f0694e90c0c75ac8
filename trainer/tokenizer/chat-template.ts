/** Hugging Face chat templates: the same messages give the same text, on any day. */

import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import type { Message, ToolSchema } from '../../protocol/message.ts';
import { readWritten } from '../../protocol/written-json.ts';
import { type TextSpan, markGeneration, takeSpans } from './assistant-mask.ts';
import { keepWhatLoopsPrinted } from './jinja/loop-controls.ts';
import { rewrite } from './jinja/nodes.ts';
import { PYTHON_JSON, usePythonJson } from './jinja/python-json.ts';
import { PYTHON_OPERATORS, usePythonOperators } from './jinja/python-operators.ts';
import { PYTHON_STRINGS, strip, usePythonStrings } from './jinja/python-strings.ts';
import { ChatTemplateRefused, templateValue } from './jinja/values.ts';

export { ChatTemplateRefused };

/** The current date for templates: fixed, so that a prompt is the same every day. */
const today = new Date(Date.UTC(2025, 0, 1));

const names = (options: Intl.DateTimeFormatOptions): string =>
  new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' }).format(today);
const pad = (n: number): string => String(n).padStart(2, '0');

const directives: Readonly<Record<string, () => string>> = {
  Y: () => String(today.getUTCFullYear()),
  m: () => pad(today.getUTCMonth() + 1),
  d: () => pad(today.getUTCDate()),
  H: () => pad(today.getUTCHours()),
  M: () => pad(today.getUTCMinutes()),
  S: () => pad(today.getUTCSeconds()),
  B: () => names({ month: 'long' }),
  b: () => names({ month: 'short' }),
  A: () => names({ weekday: 'long' }),
  a: () => names({ weekday: 'short' }),
  '%': () => '%',
};

const strftimeNow = (format: string): string =>
  format.replace(/%(.)/g, (whole, directive: string) => directives[directive]?.() ?? whole);

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  return Array.from({ length: Math.max(0, Math.ceil((to - from) / step)) }, (_, i) => from + i * step);
}

const globals: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range,
  strftime_now: strftimeNow,
  raise_exception: (message: string) => {
    throw new ChatTemplateRefused(message);
  },
  add_generation_prompt: false,
  documents: null,
  ...PYTHON_STRINGS,
  ...PYTHON_JSON,
  ...PYTHON_OPERATORS,
};

/** Messages and tools as templates read them, and a caller's variables. Numbers may be those of `readWritten`. */
export interface TemplateInput {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** `null` for no tools: templates see it as Python's `None`. An empty list stays a list. */
  readonly tools: readonly unknown[] | null;
  readonly variables: Readonly<Record<string, unknown>>;
  /** Ends the text with the last message's content, so that the policy continues it. */
  readonly continueFinalMessage?: boolean;
}

type RawMessage = TemplateInput['messages'][number];

/** Marks the end of the text that the policy continues. The space shows whether the template trims. */
const TAG = 'CONTINUE_FINAL_MESSAGE_TAG ';

const hasText = (part: unknown): part is { readonly text: string } =>
  typeof part === 'object' && part !== null && 'text' in part && typeof part.text === 'string';

/** The message with the mark after its text, or after the last text of its parts; and that text. */
function tagged(message: RawMessage | undefined): { readonly message: RawMessage; readonly text: string } {
  const content = message?.['content'];
  if (typeof content === 'string') return { message: { ...message, content: content + TAG }, text: content };
  const at = Array.isArray(content) ? content.findLastIndex(hasText) : -1;
  const part: unknown = Array.isArray(content) ? content[at] : undefined;
  if (!Array.isArray(content) || !hasText(part))
    throw new ChatTemplateRefused('the last message has no text to continue');
  return { message: { ...message, content: content.with(at, { ...part, text: part.text + TAG }) }, text: part.text };
}

/** Cuts the text at the mark, as `transformers` does for `continue_final_message`. */
function cutAtTag(rendered: string, text: string): string {
  const at = rendered.lastIndexOf(TAG.trim());
  if (at < 0 || !rendered.includes(strip(text)))
    throw new ChatTemplateRefused('the template changes the text of the last message, so it cannot be continued');
  const before = rendered.slice(0, at);
  return rendered.startsWith(TAG, at) ? before : strip(before, null, 'rstrip');
}

/** Names of a message's reasoning, as in `transformers`; templates read one of the first two. */
const REASONING = ['reasoning_content', 'thinking', 'reasoning'] as const;

function withReasoning(message: RawMessage): RawMessage {
  const reasoning = REASONING.map((name) => message[name]).find((one) => one !== undefined && one !== null);
  return reasoning === undefined ? message : { thinking: reasoning, ...message, reasoning_content: reasoning };
}

export class ChatTemplate {
  readonly #program: ReturnType<typeof parse>;
  readonly #specialTokens: Readonly<Record<string, string>>;

  /** `specialTokens`: `bos_token`, `eos_token` and the like. */
  constructor(source: string, specialTokens: Readonly<Record<string, string>>) {
    this.#program = parse(tokenize(markGeneration(source), { lstrip_blocks: true, trim_blocks: true }));
    rewrite(this.#program, (node) => keepWhatLoopsPrinted(usePythonOperators(usePythonStrings(usePythonJson(node)))));
    this.#specialTokens = specialTokens;
  }

  /** Errors: `ChatTemplateRefused`. */
  render(input: TemplateInput): string {
    if (input.continueFinalMessage !== true) return this.renderSpans(input).text;
    const { message, text } = tagged(input.messages.at(-1));
    return cutAtTag(this.renderSpans({ ...input, messages: [...input.messages.slice(0, -1), message] }).text, text);
  }

  /** The whole text, and the spans that the template's generation blocks wrote. Errors: `ChatTemplateRefused`. */
  renderSpans({ messages, tools, variables }: TemplateInput): {
    readonly text: string;
    readonly spans: readonly TextSpan[];
  } {
    // Not the library's `Template`: its own globals read the clock and cannot be replaced.
    const environment = new Environment();
    const all = { ...globals, ...this.#specialTokens, ...variables, messages: messages.map(withReasoning), tools };
    for (const [name, value] of Object.entries(all)) environment.variables.set(name, templateValue(value));
    return takeSpans((new Interpreter(environment).run(this.#program) as { value: string }).value);
  }
}

/** A message as templates expect it: OpenAI's `tool_calls`, with arguments as objects. */
export function templateMessage(message: Message): Record<string, unknown> {
  if (message.role !== 'assistant') return { ...message };
  const calls = message.toolCalls ?? [];
  const base = { role: 'assistant', content: message.content };
  if (calls.length === 0) return base;
  return {
    ...base,
    tool_calls: calls.map(({ name, arguments: plain, written }) => ({
      type: 'function',
      function: { name, arguments: written === undefined ? plain : readWritten(written) },
    })),
  };
}

export const templateTool = (tool: ToolSchema): Record<string, unknown> => ({ ...tool });
