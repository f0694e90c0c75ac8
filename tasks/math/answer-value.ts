/**
 * What an answer is: a number or expression, several of them, a tuple or an interval, a union, a matrix, an equation or
 * an inequality, a numeral with a base, or words. Reading one never fails: what is nothing else is words.
 */

import { type Expression, parseExpression } from './expression.ts';
import type { Token } from './latex-tokens.ts';

export type Value =
  | {
      readonly kind: 'expression';
      readonly of: Expression;
      /** Of a number. Empty: it has none. */
      readonly unit: string;
      readonly isPercent: boolean;
    }
  | { readonly kind: 'numeral'; readonly digits: string; readonly base: string }
  /** A set, or values one after the other: their order says nothing. */
  | { readonly kind: 'list'; readonly items: readonly Value[] }
  | { readonly kind: 'tuple'; readonly open: string; readonly close: string; readonly items: readonly Value[] }
  | { readonly kind: 'union'; readonly items: readonly Value[] }
  | { readonly kind: 'matrix'; readonly rows: ReadonlyArray<readonly Value[]> }
  /** `sides[0] signs[0] sides[1] …`. */
  | { readonly kind: 'relation'; readonly signs: readonly string[]; readonly sides: readonly Expression[] }
  | { readonly kind: 'words' };

const OPENING = new Set(['(', '[', '{', '{{']);
const CLOSING = new Set([')', ']', '}', '}}']);
const SIGNS = new Set(['=', '<', '>', 'leq', 'geq', 'neq', 'approx', 'equiv']);
const DEEPEST = 6;
const MOST_ITEMS = 50;
const WORDS: Value = { kind: 'words' };

const isAny = (token: Token | undefined, texts: ReadonlySet<string>): boolean =>
  token !== undefined && token.kind !== 'words' && texts.has(token.text);
const is = (token: Token | undefined, text: string): boolean =>
  token !== undefined && token.kind !== 'words' && token.text === text;

/** The parts between tokens outside of brackets, and those tokens. */
function split(tokens: readonly Token[], at: (token: Token) => boolean): { parts: Token[][]; between: Token[] } {
  const parts: Token[][] = [[]];
  const between: Token[] = [];
  let depth = 0;
  for (const token of tokens) {
    if (isAny(token, OPENING) || token.text.startsWith('begin ')) depth += 1;
    if (isAny(token, CLOSING) || token.text.startsWith('end ')) depth -= 1;
    if (depth === 0 && at(token)) {
      between.push(token);
      parts.push([]);
    } else parts.at(-1)?.push(token);
  }
  return { parts, between };
}

/** True if the first token's bracket ends with the last token. */
function isEnclosed(tokens: readonly Token[]): boolean {
  if (!isAny(tokens[0], OPENING) || !isAny(tokens.at(-1), CLOSING)) return false;
  let depth = 0;
  for (const [i, token] of tokens.entries()) {
    depth += Number(isAny(token, OPENING)) - Number(isAny(token, CLOSING));
    if (depth === 0) return i === tokens.length - 1;
  }
  return false;
}

const COMMAS = new Set([',', ';']);
const isComma = (token: Token): boolean =>
  isAny(token, COMMAS) || (token.kind === 'words' && /^,?\s*(?:and|or)$/i.test(token.text));

function commaParts(tokens: readonly Token[]): Token[][] {
  const { parts } = split(tokens, isComma);
  // `1, 2, and 3` has two commas in a row.
  return parts.filter((part, i) => part.length > 0 || i === 0 || i === parts.length - 1);
}

/** A number's unit at its end: degrees, words with an exponent, `%`. */
function unitOf(tokens: readonly Token[]): { rest: readonly Token[]; unit: string; isPercent: boolean } {
  let [end, unit, isPercent] = [tokens.length, '', false];
  for (;;) {
    const [token, before, third] = [tokens[end - 1], tokens[end - 2], tokens[end - 3]];
    if (end > 1 && is(token, '%')) [end, isPercent] = [end - 1, true];
    else if (end > 1 && token?.kind === 'words') [end, unit] = [end - 1, `${token.text}${unit}`];
    else if (end > 2 && is(token, 'circ') && is(before, '^')) [end, unit] = [end - 2, 'degrees'];
    else if (end > 1 && is(token, 'circ')) [end, unit] = [end - 1, 'degrees'];
    else if (end > 4 && is(token, '}') && is(before, 'circ') && is(third, '{') && is(tokens[end - 4], '^'))
      [end, unit] = [end - 4, 'degrees'];
    else if (end > 3 && token?.kind === 'number' && is(before, '^') && third?.kind === 'words')
      [end, unit] = [end - 3, `${third.text}^${token.text}`];
    else if (
      end > 5 &&
      is(token, '}') &&
      is(third, '{') &&
      is(tokens[end - 4], '^') &&
      tokens[end - 5]?.kind === 'words'
    )
      [end, unit] = [end - 5, `${tokens[end - 5]?.text}^${before?.text}`];
    else if (end > 3 && token?.kind === 'letter' && is(before, '/') && third?.kind === 'words')
      [end, unit] = [end - 3, `${third.text}/${token.text}`];
    else return { rest: tokens.slice(0, end), unit, isPercent };
  }
}

function numeral(tokens: readonly Token[]): Value | undefined {
  const [digits, under, ...rest] = tokens;
  if (digits?.kind !== 'number' || !is(under, '_')) return undefined;
  const base = isEnclosed(rest) ? rest.slice(1, -1) : rest;
  const [only] = base;
  return base.length === 1 && only?.kind === 'number'
    ? { kind: 'numeral', digits: digits.text, base: only.text }
    : undefined;
}

function matrix(tokens: readonly Token[], depth: number): Value | undefined {
  const [first, last] = [tokens[0], tokens.at(-1)];
  if (first?.kind !== 'command' || last?.kind !== 'command') return undefined;
  const [, name] = /^begin ([bpvV]?matrix|array)$/.exec(first.text) ?? [];
  if (name === undefined || last.text !== `end ${name}`) return undefined;
  let inner = tokens.slice(1, -1);
  // `\begin{array}{cc}` says how its columns are aligned.
  if (name === 'array' && is(inner[0], '{')) inner = inner.slice(inner.findIndex((token) => is(token, '}')) + 1);
  const rows = split(inner, (token) => is(token, '\\\\')).parts.filter((row) => row.length > 0);
  if (rows.length > MOST_ITEMS) return undefined;
  const cells = rows.map((row) =>
    split(row, (token) => is(token, '&')).parts.map((cell) => readValue(cell, depth + 1)),
  );
  return { kind: 'matrix', rows: cells };
}

/** `a \pm b` is two values. */
function bothSigns(tokens: readonly Token[], depth: number): Value | undefined {
  const signs = new Set(['pm', 'mp']);
  if (!tokens.some((token) => isAny(token, signs))) return undefined;
  const withSign = (isUpper: boolean): Token[] =>
    tokens.map((token) =>
      isAny(token, signs) ? { kind: 'symbol', text: (token.text === 'pm') === isUpper ? '+' : '-' } : token,
    );
  return { kind: 'list', items: [true, false].map((isUpper) => readValue(withSign(isUpper), depth + 1)) };
}

function relation(tokens: readonly Token[]): Value | undefined {
  const { parts, between } = split(tokens, (token) => isAny(token, SIGNS));
  if (between.length === 0 || between.length > 4) return undefined;
  const sides = parts.map((part) => parseExpression(unitOf(part).rest));
  const all = sides.flatMap((side) => side ?? []);
  return all.length < sides.length
    ? undefined
    : { kind: 'relation', signs: between.map(({ text }) => text), sides: all };
}

function enclosed(tokens: readonly Token[], depth: number): Value | undefined {
  if (!isEnclosed(tokens)) return undefined;
  const [open = '', close = ''] = [tokens[0]?.text, tokens.at(-1)?.text];
  const inner = tokens.slice(1, -1);
  if (open === '{' && close === '}') return readValue(inner, depth + 1);
  const parts = commaParts(inner);
  if (parts.length > MOST_ITEMS) return WORDS;
  if (open === '{{') {
    if (close !== '}}') return undefined;
    return { kind: 'list', items: inner.length === 0 ? [] : parts.map((part) => readValue(part, depth + 1)) };
  }
  if (parts.length < 2) return open === '(' && close === ')' ? readValue(inner, depth + 1) : undefined;
  return { kind: 'tuple', open, close, items: parts.map((part) => readValue(part, depth + 1)) };
}

export function readValue(tokens: readonly Token[], depth = 0): Value {
  if (depth > DEEPEST || tokens.length === 0) return WORDS;
  if (is(tokens[1], 'in') && tokens[0]?.kind === 'letter') return readValue(tokens.slice(2), depth + 1);
  const named = split(tokens, (token) => is(token, '=')).parts;
  // `(x, y) = (1, 2)`.
  if (named.length === 2 && isEnclosed(named[0] ?? []) && commaParts((named[0] ?? []).slice(1, -1)).length > 1)
    return readValue(named[1] ?? [], depth + 1);
  if (tokens.length === 1 && is(tokens[0], 'emptyset')) return { kind: 'list', items: [] };
  const parts = commaParts(tokens);
  if (parts.length > MOST_ITEMS) return WORDS;
  if (parts.length > 1) return { kind: 'list', items: parts.map((part) => readValue(part, depth + 1)) };
  const sets = split(tokens, (token) => is(token, 'cup')).parts;
  if (sets.length > MOST_ITEMS) return WORDS;
  if (sets.length > 1) return { kind: 'union', items: sets.map((part) => readValue(part, depth + 1)) };
  const found =
    enclosed(tokens, depth) ?? matrix(tokens, depth) ?? bothSigns(tokens, depth) ?? relation(tokens) ?? numeral(tokens);
  if (found !== undefined) return found;
  const { rest, unit, isPercent } = unitOf(tokens);
  const of = parseExpression(rest);
  return of === undefined ? (numeral(rest) ?? WORDS) : { kind: 'expression', of, unit, isPercent };
}
