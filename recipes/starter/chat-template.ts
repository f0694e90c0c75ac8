/**
 * The starter policy's chat template: one token starts a message, one ends it, and calls have OpenHands' tags. Messages
 * are only appended, so the text of a conversation is a prefix of the text of every conversation that continues it.
 */

/** Each role has a token that starts its messages. `END` ends a message; the policy samples it to end its turn. */
export const ROLES = ['system', 'user', 'assistant', 'tool'] as const;
export const END = '<|im_end|>';
export const PADDING = '<|pad|>';

export function roleToken(role: (typeof ROLES)[number]): string {
  return `<|${role}|>`;
}

/** Tool schemas are not included: the policy knows its four tools from training, and its context is small. */
export const CHAT_TEMPLATE = [
  '{%- for message in messages -%}',
  "{{- '<|' + message.role + '|>' -}}",
  '{%- if message.content -%}{{- message.content -}}{%- endif -%}',
  '{%- if message.tool_calls -%}',
  '{%- for tool_call in message.tool_calls -%}',
  '{%- set call = tool_call.function if tool_call.function is defined else tool_call -%}',
  "{%- if not loop.first or message.content -%}{{- '\\n' -}}{%- endif -%}",
  "{{- '<function=' + call.name + '>\\n' -}}",
  '{%- for key, value in call.arguments.items() -%}',
  "{{- '<parameter=' + key + '>' -}}",
  '{{- value if value is string else value | tojson -}}',
  "{{- '</parameter>\\n' -}}",
  '{%- endfor -%}',
  "{{- '</function>' -}}",
  '{%- endfor -%}',
  '{%- endif -%}',
  `{{- '${END}' -}}`,
  '{%- endfor -%}',
  "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}",
].join('\n');

const EDITOR = '<function=str_replace_editor>\n<parameter=command>';

/** The parts of calls. Each is one token. */
export const CALL_TOKENS: readonly string[] = [
  `${EDITOR}view</parameter>\n<parameter=path>`,
  `${EDITOR}str_replace</parameter>\n<parameter=path>`,
  '</parameter>\n<parameter=old_str>',
  '</parameter>\n<parameter=new_str>',
  '</parameter>\n</function>',
  '<function=search>\n<parameter=query>',
  '<function=bash>\n<parameter=command>',
  '<function=finish>\n</function>',
];
