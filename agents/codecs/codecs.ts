/** The codecs by name, and the one that a chat template uses. */

import type { TextCodecName } from '../../protocol/conversation.ts';
import type { Codec } from './codec.ts';
import { functionXml } from './function-xml.ts';
import { hermesJson } from './hermes-json.ts';
import { llama3Json } from './llama3-json.ts';
import { skyrlText } from './skyrl-text.ts';

const codecs: Readonly<Record<TextCodecName, Codec>> = {
  'hermes-json': hermesJson,
  'function-xml': functionXml,
  'llama3-json': llama3Json,
  'skyrl-text': skyrlText,
};

export const codecNamed = (name: TextCodecName): Codec => codecs[name];

/** The codec whose calls the template writes. `undefined` if it writes none, or in a form of its own. */
export function writtenCodec(chatTemplate: string): Codec | undefined {
  if (chatTemplate.includes('<function=')) return functionXml;
  if (chatTemplate.includes('<tool_call>')) return hermesJson;
  return chatTemplate.includes('"parameters": ') ? llama3Json : undefined;
}

/** The codec that reads the policy's calls. For a template that writes none it is Hermes', which most models know. */
export const codecOfTemplate = (chatTemplate: string): Codec => writtenCodec(chatTemplate) ?? hermesJson;
