/**
 * Whether two expressions have the same value: exactly for rational numbers, else in double precision at points that
 * depend on both texts, so that nobody can write for them (Schwartz, 1980). A finite decimal of at least six places
 * stands for every number that is rounded to it.
 */

import { createHash } from 'node:crypto';
import { abs, type Complex, complex, isFinite } from './complex.ts';
import { exactValue, type Points, valueAt, variablesOf } from './evaluate.ts';
import type { Expression } from './expression.ts';
import { numberOf, sameFraction } from './fraction.ts';

const POINTS = 10;
/** Points at which both have a value. */
const FEWEST = 4;
/** Of the value, and of the terms that cancelled. */
const [CLOSE, ERROR] = [1e-9, 1e-12];
/** Decimal places. */
const ROUNDED = 6;
/** An answer has no more variables. */
const MOST_VARIABLES = 20;

function isClose(a: Complex, b: Complex): boolean {
  const distance = Math.hypot(a.re - b.re, a.im - b.im);
  return distance <= Math.max(CLOSE * Math.max(abs(a), abs(b)), ERROR * Math.max(a.size, b.size));
}

/** Points off the axes and on both sides of them, some of them real. */
function points(texts: string): Points[] {
  const seed = createHash('sha256').update(texts).digest();
  const unit = (name: string): number =>
    createHash('sha256').update(seed).update(name).digest().readUInt32BE() / 2 ** 32;
  return Array.from({ length: POINTS }, (_, n) => (variable) => {
    const size = 0.3 + 2.4 * unit(`${n} ${variable} re`);
    const side = n % 3 === 0 ? 1 : unit(`${n} ${variable} side`) < 0.5 ? -1 : 1;
    return complex(side * size, n % 3 === 2 ? 2 * unit(`${n} ${variable} im`) - 1 : 0);
  });
}

/** Number of decimal places of a number that is written as one; 0 for any other expression. */
function placesOf(of: Expression): number {
  if (of.kind === 'product' && of.left.kind === 'product') return placesOf(of.right);
  return of.kind === 'number' ? (of.text.split('.')[1]?.length ?? 0) : 0;
}

/** True if `decimal` has enough places, and the other one is rounded to it. */
function isRounding(decimal: Expression, other: Complex): boolean {
  const places = Math.min(placesOf(decimal), 12);
  const value = exactValue(decimal);
  if (places < ROUNDED || value === undefined || other.im !== 0) return false;
  return Math.abs(numberOf(value) - other.re) <= 0.5 * 10 ** -places * (1 + 1e-9);
}

/** True if both have the same value wherever they have one. */
export function sameValue(a: Expression, b: Expression): boolean {
  const [exactA, exactB] = [exactValue(a), exactValue(b)];
  if (exactA !== undefined && exactB !== undefined && sameFraction(exactA, exactB)) return true;
  const variables = new Set([...variablesOf(a), ...variablesOf(b)]);
  if (variables.size > MOST_VARIABLES) return false;
  const [textA, textB] = [JSON.stringify(a), JSON.stringify(b)];
  if (textA === textB) return true;
  const at = points(`${textA} ${textB}`);
  if (variables.size === 0) {
    const [first = () => complex(0)] = at;
    const [x, y] = [valueAt(a, first), valueAt(b, first)];
    if (isRounding(a, y) || isRounding(b, x)) return true;
    if (exactA !== undefined && exactB !== undefined) return false;
    const [signA, signB] = [infinity(a), infinity(b)];
    if (signA !== 0 || signB !== 0) return signA === signB;
    return isFinite(x) && isFinite(y) && isClose(x, y);
  }
  let shared = 0;
  for (const point of at) {
    const [x, y] = [valueAt(a, point), valueAt(b, point)];
    if (isFinite(x) !== isFinite(y)) return false;
    if (!isFinite(x)) continue;
    if (!isClose(x, y)) return false;
    shared += 1;
  }
  return shared >= FEWEST;
}

/** 1 or -1 for an expression that names infinity, else 0: a number that only became too large is no answer. */
function infinity(of: Expression): number {
  if (of.kind === 'constant') return Number(of.name === 'infty');
  const factor = of.kind === 'product' ? exactValue(of.left) : undefined;
  return of.kind === 'product' && factor !== undefined ? Math.sign(Number(factor.top)) * infinity(of.right) : 0;
}

/** True if one is the other one times a number that is not 0: two equations `a = 0` and `b = 0` say the same. */
export function sameUpToFactor(a: Expression, b: Expression, isPositive = false): boolean {
  if (new Set([...variablesOf(a), ...variablesOf(b)]).size > MOST_VARIABLES) return false;
  const at = points(JSON.stringify([a, b]));
  let [ratio, shared]: [Complex | undefined, number] = [undefined, 0];
  for (const point of at) {
    const [x, y] = [valueAt(a, point), valueAt(b, point)];
    if (!isFinite(x) || !isFinite(y) || abs(y) === 0 || abs(x) === 0) continue;
    const square = y.re * y.re + y.im * y.im;
    const here = complex((x.re * y.re + x.im * y.im) / square, (x.im * y.re - x.re * y.im) / square);
    if (ratio !== undefined && Math.hypot(ratio.re - here.re, ratio.im - here.im) > CLOSE * abs(ratio)) return false;
    ratio ??= here;
    shared += 1;
  }
  if (ratio === undefined || shared < FEWEST) return false;
  return !isPositive || (ratio.re > 0 && Math.abs(ratio.im) <= CLOSE * abs(ratio));
}
