/**
 * The tokenizer of a small policy with short contexts: the starter's chat template (one token starts a message, one
 * ends it), words with the space before them, and numbers in groups of one to three digits, each whole group one token.
 */

import { CHAT_TEMPLATE, END, PADDING, ROLES, roleToken } from '../starter/chat-template.ts';
import type { TokenizerForm } from './tokenizer-files.ts';

/** Spaces are never part of a number's word, so a number has the same tokens wherever it is written. */
const words = (digits: number): string => String.raw`\p{N}{1,${digits}}| ?[\p{L}_]+| ?[^\s\p{L}\p{N}_]+ ?|\s+`;

const groupsOf = (digits: number): string[] =>
  Array.from({ length: 10 ** digits }, (_, n) => String(n).padStart(digits, '0'));

/** `tokens`: texts that are one token each, as the parts of calls. `digits`: digits of a group, 1 to 3. */
export function compactForm({
  tokens,
  digits,
}: {
  readonly tokens: readonly string[];
  readonly digits: number;
}): TokenizerForm {
  return {
    pattern: words(digits),
    atoms: digits > 1 ? groupsOf(digits) : [],
    special: [PADDING, END, ...ROLES.map(roleToken)],
    added: tokens,
    end: END,
    padding: PADDING,
    chatTemplate: CHAT_TEMPLATE,
  };
}
