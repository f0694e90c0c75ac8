/**
 * How an answer in words is compared: exact match, exact match of a part, and F1 of the words, on texts without case,
 * punctuation and articles (SQuAD, Rajpurkar et al., 2016). Every rule reads a text once.
 */

import { boxedAt } from '../math/boxed.ts';
import { wordsOf } from '../../protocol/python-text.ts';

/** Python's `string.punctuation`. */
const PUNCTUATION = /[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]/g;
/** Between what Python takes for words: letters, digits and the underscore of any language. */
const ARTICLES = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;

/** Lower case, without punctuation and articles, and with single spaces. */
export function normalizedAnswer(text: string): string {
  const words = text.toLowerCase().replaceAll(PUNCTUATION, '').replaceAll(ARTICLES, ' ');
  return wordsOf(words).join(' ');
}

/** SkyRL's rule: two texts without any word are equal, too. */
export const skyrlExactMatch = (prediction: string, golds: readonly string[]): boolean =>
  golds.some((gold) => normalizedAnswer(gold) === normalizedAnswer(prediction));

/** SkyRL's rule: no word is a part of every text. */
export const skyrlSubMatch = (prediction: string, golds: readonly string[]): boolean =>
  golds.some((gold) => normalizedAnswer(prediction).includes(normalizedAnswer(gold)));

/** Without words there is no match. */
export const exactMatch = (prediction: string, golds: readonly string[]): boolean =>
  normalizedAnswer(prediction) !== '' && skyrlExactMatch(prediction, golds);

/** The words of a gold answer, one after the other, are in the answer. */
export function subMatch(prediction: string, golds: readonly string[]): boolean {
  const said = ` ${normalizedAnswer(prediction)} `;
  return golds.some((gold) => {
    const words = normalizedAnswer(gold);
    return words !== '' && said.includes(` ${words} `);
  });
}

/** An answer that is one of them is no other word. */
const CLOSED = new Set(['yes', 'no', 'noanswer']);

function f1Of(prediction: string, gold: string): number {
  const [said, right] = [normalizedAnswer(prediction), normalizedAnswer(gold)];
  if (said === '' || right === '' || (said !== right && (CLOSED.has(said) || CLOSED.has(right)))) return 0;
  const left = new Map<string, number>();
  const golds = right.split(' ');
  for (const word of golds) left.set(word, (left.get(word) ?? 0) + 1);
  const words = said.split(' ');
  let shared = 0;
  for (const word of words) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    left.set(word, count - 1);
    shared += 1;
  }
  return (2 * shared) / (words.length + golds.length);
}

/** The best F1 over the gold answers, from 0 to 1. */
export const f1 = (prediction: string, golds: readonly string[]): number =>
  Math.max(0, ...golds.map((gold) => f1Of(prediction, gold)));

/**
 * What an answer says: in the last `<answer>…</answer>`, if there is one, then in the last `\boxed{…}`. Opening tags
 * without an end are no answer.
 */
export function unwrapped(message: string): string {
  const end = message.lastIndexOf('</answer>');
  const start = end < 0 ? -1 : message.lastIndexOf('<answer>', end);
  const inner = start < 0 ? message : message.slice(start + '<answer>'.length, end);
  return (boxedAt(inner, inner.lastIndexOf('\\boxed{')) ?? inner).trim();
}

/** True if the message has the tags, or the box. */
export const isWrapped = (message: string): boolean => unwrapped(message) !== message.trim();
