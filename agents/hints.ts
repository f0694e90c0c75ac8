/** The texts that the policy receives if its turn had no usable call: short and stable. */

import type { ToolCallFormat } from './parse-tool-calls.ts';

const FORM: Readonly<Record<ToolCallFormat, string>> = {
  'function-xml': '<function=NAME>\n<parameter=P>value</parameter>\n</function>',
  'hermes-json': '<tool_call>\n{"name": NAME, "arguments": {"P": value}}\n</tool_call>',
};

export function noCallHint(format: ToolCallFormat): string {
  return `No tool call found. Use this form, and the finish tool when done:\n${FORM[format]}`;
}

export function malformedCallHint(format: ToolCallFormat, error: string): string {
  return `The tool call could not be read: ${error} Use this form:\n${FORM[format]}`;
}

/** For policies whose server encodes and parses the calls. */
export const noChatCallHint = 'No tool call found. Call one of the tools, and the finish tool when done.';

export function malformedChatCallHint(error: string): string {
  return `The tool call could not be read. ${error} Give the arguments as one JSON object.`;
}
