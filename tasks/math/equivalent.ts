/**
 * Whether two answers mean the same. Bounded in time whatever they are: texts of 2,000 characters, lists of 50 values,
 * brackets and exponents within limits; what is beyond them is equal only character by character.
 */

import { readValue, type Value } from './answer-value.ts';
import { variablesOf } from './evaluate.ts';
import type { Expression } from './expression.ts';
import { latexTokens } from './latex-tokens.ts';
import { sameUpToFactor, sameValue } from './same-value.ts';

/** Without what changes only the look of a text. */
export function exactText(text: string): string {
  return text
    .replaceAll(/\\(?:left|right|displaystyle|[,;:! ()[\]])|[\s$]/g, '')
    .replaceAll(/\\[dt]frac/g, String.raw`\frac`)
    .replace(/\.$/, '');
}

/** Words with their punctuation. */
const PROSE = /^[\p{L}\s().,'"-]+$/u;
const SHORT_RUN = /(?<!\p{L})\p{L}{1,2}(?!\p{L})/u;

/**
 * The letters of words; another text without its commands for words. `p - q` and `a, b` are no words: punctuation says
 * something there.
 */
function wordsKey(text: string): string {
  const words = text.replaceAll(/\\(?:text|mbox|textbf|mathrm|textit)\s?\{([^{}]*)\}/g, '$1').replaceAll('$', '');
  const plain = words.trim().toLowerCase();
  const isProse = PROSE.test(plain) && (!/[.,'"-]/.test(plain) || !SHORT_RUN.test(plain));
  return isProse ? plain.replaceAll(/[^\p{L}]/gu, '') : exactText(words);
}

const number = (text: string): Expression => ({ kind: 'number', text });
const INFINITE: Expression = { kind: 'constant', name: 'infty' };
const negative = (right: Expression): Expression => ({ kind: 'product', left: number('-1'), right });
const minus = (left: Expression, right: Expression): Expression => ({ kind: 'sum', left, right: negative(right) });
const asValue = (of: Expression): Value => ({ kind: 'expression', of, unit: '', isPercent: false });

/** Names of the same unit. Others are not compared: one may be left out, or written in another way. */
const UNITS: ReadonlyArray<readonly string[]> = [
  ['degree', 'deg', '°'],
  ['cm', 'centimeter', 'centimetre'],
  ['mm', 'millimeter', 'millimetre'],
  ['km', 'kilometer', 'kilometre'],
  ['m', 'meter', 'metre'],
  ['in', 'inch', 'inche'],
  ['ft', 'foot', 'feet'],
  ['yard', 'yd'],
  ['mile', 'mi'],
  ['second', 'sec'],
  ['minute', 'min'],
  ['hour', 'hr'],
  ['day'],
  ['dollar'],
  ['cent'],
  ['radian', 'rad'],
];

/** The place of a unit in the list; -1 for another one. */
function unitNumber(unit: string): number {
  const name = unit.toLowerCase().replaceAll(/[^a-z°]/g, '');
  const singular = name.length > 2 ? name.replace(/s$/, '') : name;
  return UNITS.findIndex((names) => names.includes(singular));
}

function sameUnit(a: string, b: string): boolean {
  if (a === '' || b === '') return true;
  const [one, other] = [unitNumber(a), unitNumber(b)];
  return one < 0 || other < 0 || one === other;
}

type Of<Kind extends Value['kind']> = Extract<Value, { kind: Kind }>;

function sameNumbers(a: Of<'expression'>, b: Of<'expression'>): boolean {
  if (!sameUnit(a.unit, b.unit)) return false;
  if (sameValue(a.of, b.of)) return true;
  if (a.isPercent === b.isPercent) return false;
  const hundredth = (of: Expression): Expression => ({ kind: 'quotient', left: of, right: number('100') });
  return a.isPercent ? sameValue(hundredth(a.of), b.of) : sameValue(a.of, hundredth(b.of));
}

/** Each of the one has one of the other, in any order. */
function sameItems(a: readonly Value[], b: readonly Value[]): boolean {
  if (a.length !== b.length) return false;
  const left = [...b];
  return a.every((one) => {
    const at = left.findIndex((other) => same(one, other));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

const inOrder = (a: readonly Value[], b: readonly Value[]): boolean =>
  a.length === b.length && a.every((one, i) => same(one, b[i] ?? { kind: 'words' }));

const OPPOSITE: Readonly<Record<string, string>> = { '>': '<', geq: 'leq' };

/** With `<` and `leq` alone. */
function ascending({ signs, sides }: Of<'relation'>): Of<'relation'> {
  if (!signs.every((sign) => Object.hasOwn(OPPOSITE, sign))) return { kind: 'relation', signs, sides };
  return {
    kind: 'relation',
    signs: signs.map((sign) => OPPOSITE[sign] ?? sign).toReversed(),
    sides: sides.toReversed(),
  };
}

/** The interval of a variable that inequalities say; `undefined` if they say something else. */
function intervalOf(given: Of<'relation'>): Of<'tuple'> | undefined {
  const { signs, sides } = ascending(given);
  if (!signs.every((sign) => sign === '<' || sign === 'leq')) return undefined;
  const middle = sides.findIndex((side) => side.kind === 'variable');
  const [below, above] = [sides[middle - 1], sides[middle + 1]];
  if (middle < 0 || sides.length > 3 || (sides.length === 3 && middle !== 1)) return undefined;
  const isClosed = (sign: string | undefined): boolean => sign === 'leq';
  return {
    kind: 'tuple',
    open: below !== undefined && isClosed(signs[middle - 1]) ? '[' : '(',
    close: above !== undefined && isClosed(signs[middle]) ? ']' : ')',
    items: [asValue(below ?? negative(INFINITE)), asValue(above ?? INFINITE)],
  };
}

/** `x`, `f(x)`, `V_1`: what an equation may name its value by. */
function isName(of: Expression): boolean {
  if (of.kind === 'variable') return true;
  return of.kind === 'product' && isName(of.left) && isName(of.right);
}

/** The value of `x = 5`, also of `x = 2 + 3 = 5`; `undefined` for another relation. */
function assigned({ signs, sides }: Of<'relation'>): Value | undefined {
  const [first, last] = [sides[0], sides.at(-1)];
  if (first === undefined || last === undefined || !isName(first)) return undefined;
  if (!signs.every((sign) => sign === '=')) return undefined;
  const names = variablesOf(first);
  // `x = x + 1` says no value; f(x) = x + 1 does.
  if (first.kind === 'variable' && [...variablesOf(last)].some((name) => names.has(name))) return undefined;
  const inner = sides.slice(1, -1);
  return inner.every((side) => sameValue(side, last)) ? asValue(last) : undefined;
}

function sameRelations(a: Of<'relation'>, b: Of<'relation'>): boolean {
  const [one, other] = [intervalOf(a), intervalOf(b)];
  const variables = (of: Of<'relation'>): string =>
    [...new Set(of.sides.flatMap((side) => [...variablesOf(side)]))].toSorted().join(' ');
  if (one !== undefined && other !== undefined) return variables(a) === variables(b) && same(one, other);
  const [x, y] = [ascending(a), ascending(b)];
  if (x.signs.join(' ') !== y.signs.join(' ')) return false;
  if (x.signs.length > 1) return x.sides.every((side, i) => sameValue(side, y.sides[i] ?? number('')));
  const [left, right] = [x, y].map(({ sides: [first = number(''), second = number('')] }) => minus(first, second));
  const isEquation = x.signs[0] === '=' || x.signs[0] === 'neq';
  return left !== undefined && right !== undefined && sameUpToFactor(left, right, !isEquation);
}

function sameRelation(relation: Of<'relation'>, other: Value): boolean {
  if (other.kind === 'relation') return sameRelations(relation, other);
  if (other.kind === 'tuple' || other.kind === 'union') {
    const interval = intervalOf(relation);
    if (interval !== undefined) return same(interval, other);
  }
  const value = assigned(relation);
  return value !== undefined && same(value, other);
}

function same(a: Value, b: Value): boolean {
  if (a.kind === 'relation') return sameRelation(a, b);
  if (b.kind === 'relation') return sameRelation(b, a);
  if (a.kind === 'expression' && b.kind === 'expression') return sameNumbers(a, b);
  if (a.kind === 'numeral' || b.kind === 'numeral') return sameNumerals(a, b);
  if (a.kind === 'list' && b.kind === 'list') return sameItems(a.items, b.items);
  if (a.kind === 'union' && b.kind === 'union') return sameItems(a.items, b.items);
  if (a.kind === 'tuple' && b.kind === 'tuple')
    return a.open === b.open && a.close === b.close && inOrder(a.items, b.items);
  if (a.kind === 'matrix' && b.kind === 'matrix')
    return a.rows.length === b.rows.length && a.rows.every((row, i) => inOrder(row, b.rows[i] ?? []));
  // A set of one value, and the value.
  if (a.kind === 'list' && a.items.length === 1 && a.items[0] !== undefined) return same(a.items[0], b);
  if (b.kind === 'list' && b.items.length === 1 && b.items[0] !== undefined) return same(a, b.items[0]);
  return false;
}

/** A numeral without its base is the same if the digits are: the base is in the question. */
function sameNumerals(a: Value, b: Value): boolean {
  const digitsOf = (value: Value): string | undefined => {
    if (value.kind === 'numeral') return value.digits;
    return value.kind === 'expression' && value.of.kind === 'number' ? value.of.text : undefined;
  };
  if (a.kind === 'numeral' && b.kind === 'numeral' && a.base !== b.base) return false;
  const digits = digitsOf(a);
  return digits !== undefined && digits === digitsOf(b);
}

/** The values that a text may mean: `1,234` is a number or a list. */
function valuesOf(text: string): readonly Value[] {
  return [false, true].flatMap((grouped) => {
    const tokens = latexTokens(text, grouped);
    return tokens === undefined ? [] : [readValue(tokens)];
  });
}

/** Capitals and short words are names, whose letters are no product: `AB` is not `BA`. */
const isPlainName = (text: string): boolean =>
  /^(?=.*[A-Z])[A-Za-z]{2,}$|^(?:yes|no|odd|all|one|two|six|ten)$/.test(text.trim());

/** True if both answers mean the same. */
export function equivalent(gold: string, said: string): boolean {
  if (said.trim() === '') return false;
  if (exactText(gold) === exactText(said) || wordsKey(gold) === wordsKey(said)) return exactText(gold) !== '';
  if (isPlainName(gold) || isPlainName(said)) return false;
  const values = valuesOf(said);
  return valuesOf(gold).some((one) => values.some((other) => same(one, other)));
}
