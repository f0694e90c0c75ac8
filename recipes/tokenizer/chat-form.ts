/**
 * The tokenizer of a new policy: ChatML, tool calls as Hermes writes them (JSON in tags), and the words of Qwen2's
 * tokenizer. Messages are only appended, so the text of a conversation is a prefix of every conversation that continues
 * it.
 */

import type { TokenizerForm } from './tokenizer-files.ts';

const [START, END, PADDING] = ['<|im_start|>', '<|im_end|>', '<|pad|>'];

const TOOLS_BEFORE = [
  '# Tools',
  '',
  'You may call one or more functions to assist with the user query.',
  '',
  'You are provided with function signatures within <tools></tools> XML tags:',
  '<tools>',
].join('\\n');
const TOOLS_AFTER = [
  '',
  '</tools>',
  '',
  'For each function call, return a json object with function name and arguments within ' +
    '<tool_call></tool_call> XML tags:',
  '<tool_call>',
  '{"name": <function-name>, "arguments": <args-json-object>}',
  '</tool_call>',
].join('\\n');

const CHAT_TEMPLATE = [
  "{%- set first = messages[0].content if messages and messages[0].role == 'system' else '' -%}",
  '{%- if tools -%}',
  `{{- '${START}system\\n' -}}`,
  "{%- if first -%}{{- first + '\\n\\n' -}}{%- endif -%}",
  `{{- '${TOOLS_BEFORE}' -}}`,
  "{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}",
  `{{- '${TOOLS_AFTER}${END}\\n' -}}`,
  '{%- endif -%}',
  '{%- for message in messages -%}',
  "{%- if not (tools and loop.first and message.role == 'system') -%}",
  `{{- '${START}' + message.role + '\\n' -}}`,
  "{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' " +
    '-}}{%- endif -%}',
  '{%- if message.content -%}{{- message.content -}}{%- endif -%}',
  '{%- if message.tool_calls -%}',
  '{%- for tool_call in message.tool_calls -%}',
  '{%- set call = tool_call.function if tool_call.function is defined else tool_call -%}',
  "{%- if not loop.first or message.content -%}{{- '\\n' -}}{%- endif -%}",
  `{{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}`,
  '{{- call.arguments if call.arguments is string else call.arguments | tojson -}}',
  "{{- '}\\n</tool_call>' -}}",
  '{%- endfor -%}',
  '{%- endif -%}',
  `{{- '${END}\\n' -}}`,
  '{%- endif -%}',
  '{%- endfor -%}',
  `{%- if add_generation_prompt -%}{{- '${START}assistant\\n' -}}{%- endif -%}`,
].join('\n');

export const CHAT_FORM: TokenizerForm = {
  pattern: String.raw`'(?:[sdmt]|re|ve|ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  atoms: [],
  special: [PADDING, START, END],
  added: ['<tool_call>', '</tool_call>', '<think>', '</think>'],
  end: END,
  padding: PADDING,
  chatTemplate: CHAT_TEMPLATE,
};
