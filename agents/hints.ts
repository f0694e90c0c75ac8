/** The texts that the policy receives if its turn had no usable call: short and stable. */

import type { CodecName } from '../protocol/conversation.ts';
import { codecNamed } from './codecs/codecs.ts';

export function noCallHint(form: CodecName): string {
  return form === 'server'
    ? 'No tool call found. Call one of the tools, and the finish tool when done.'
    : `No tool call found. Use this form, and the finish tool when done:\n${codecNamed(form).form}`;
}

export function malformedCallHint(form: CodecName, error: string): string {
  return form === 'server'
    ? `The tool call could not be read. ${error} Give the arguments as one JSON object.`
    : `The tool call could not be read: ${error} Use this form:\n${codecNamed(form).form}`;
}
