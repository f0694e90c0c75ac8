/** The contexts of a rollout that has no token ids, as sequences: calls and answers of tools as SkyRL-Agent's texts. */

import { asText } from '../../../agents/conversation-form.ts';
import { skyrlText } from '../../../agents/codecs/skyrl-text.ts';
import type { Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import type { ChatContext } from '../formats/format.ts';
import { encodeTranscript } from './encode-transcript.ts';
import type { SkyrlSequence } from './output.ts';

/** The prompt ends before the first message of the assistant. Errors: those of `encodeTranscript`. */
export function encodedFromText(
  contexts: readonly ChatContext[],
  tokenizer: Tokenizer,
  removesReasoning: boolean,
): SkyrlSequence[] {
  return contexts.map(({ messages }) => {
    const { prompt, response, mask, logprobs } = encodeTranscript(asText(messages, skyrlText), tokenizer, {
      removesReasoning,
    });
    const first = mask.indexOf(1);
    const begin = first < 0 ? mask.length : first;
    return { prompt, response: response.slice(begin), mask: mask.slice(begin), logprobs };
  });
}
