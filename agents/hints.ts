/** The texts that the policy receives if its turn had no usable call: short and stable. */

import type { ToolCallFormat } from './parse-tool-calls.ts';

/** How calls are encoded: in the policy's own text, or (`chat`) by its server. */
export type CallForm = ToolCallFormat | 'chat';

const FORM: Readonly<Record<ToolCallFormat, string>> = {
  'function-xml': '<function=NAME>\n<parameter=P>value</parameter>\n</function>',
  'hermes-json': '<tool_call>\n{"name": NAME, "arguments": {"P": value}}\n</tool_call>',
};

export function noCallHint(form: CallForm): string {
  return form === 'chat'
    ? 'No tool call found. Call one of the tools, and the finish tool when done.'
    : `No tool call found. Use this form, and the finish tool when done:\n${FORM[form]}`;
}

export function malformedCallHint(form: CallForm, error: string): string {
  return form === 'chat'
    ? `The tool call could not be read. ${error} Give the arguments as one JSON object.`
    : `The tool call could not be read: ${error} Use this form:\n${FORM[form]}`;
}
