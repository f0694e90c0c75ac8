/**
 * Values of expressions: exact where they are rational, else in double precision at points. Sizes are bounded: what is
 * too large has no value.
 */

import { type Complex, complex, FUNCTIONS, ln, over, plus, power, root, times } from './complex.ts';
import type { Expression } from './expression.ts';
import { added, decimalOf, divided, type Fraction, fraction, multiplied, numberOf, raised } from './fraction.ts';

/** The largest number of which a factorial or a binomial coefficient is computed. */
const LARGEST = 1000n;

const whole = (value: Fraction | undefined): bigint | undefined =>
  value !== undefined && value.top % value.bottom === 0n ? value.top / value.bottom : undefined;

function factorial(n: bigint | undefined): bigint | undefined {
  if (n === undefined || n < 0n || n > LARGEST / 4n) return undefined;
  let product = 1n;
  for (let k = 2n; k <= n; k += 1n) product *= k;
  return product;
}

function binomial(n: bigint | undefined, k: bigint | undefined): bigint | undefined {
  if (n === undefined || k === undefined || k < 0n || n < 0n || n > LARGEST) return undefined;
  if (k > n) return 0n;
  let result = 1n;
  for (let i = 1n; i <= (2n * k > n ? n - k : k); i += 1n) result = (result * ((2n * k > n ? k : n - k) + i)) / i;
  return result;
}

function gcd(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

/** By Newton's method from above, in whole numbers: a double holds no value of 4,096 bits. */
function rootOf(value: bigint, degree: bigint): bigint | undefined {
  if (value < 0n || degree < 1n || degree > 64n) return undefined;
  if (value === 0n) return 0n;
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / Number(degree)));
  for (;;) {
    const next = ((degree - 1n) * root + value / root ** (degree - 1n)) / degree;
    if (next >= root) return root ** degree === value ? root : undefined;
    root = next;
  }
}

const exactly = (top: bigint | undefined): Fraction | undefined => (top === undefined ? undefined : fraction(top));

function exactCall(name: string, of: ReadonlyArray<Fraction | undefined>): Fraction | undefined {
  const [first, second] = of;
  if (first === undefined) return undefined;
  const [a, b] = [whole(first), whole(second)];
  if (name === 'abs') return { ...first, top: first.top < 0n ? -first.top : first.top };
  if (name === 'factorial') return exactly(factorial(a));
  if (name === 'binom') return exactly(binomial(a, b));
  if (name === 'floor' || name === 'ceil') {
    const down = first.top / first.bottom - (first.top < 0n && first.top % first.bottom !== 0n ? 1n : 0n);
    return fraction(name === 'floor' || down * first.bottom === first.top ? down : down + 1n);
  }
  if (name === 'root' && b !== undefined) {
    const isNegative = first.top < 0n && b % 2n === 1n;
    const top = rootOf(isNegative ? -first.top : first.top, b);
    const bottom = rootOf(first.bottom, b);
    return top === undefined || bottom === undefined ? undefined : { top: isNegative ? -top : top, bottom };
  }
  if (name === 'gcd' && a !== undefined && b !== undefined) return fraction(gcd(a, b));
  return undefined;
}

/** A long sum asks for the values of its parts again and again. */
const known = new WeakMap<Expression, { readonly value: Fraction | undefined }>();

/** The rational number that an expression is; `undefined` if it is none, or if it is too large. */
export function exactValue(of: Expression): Fraction | undefined {
  const before = known.get(of);
  if (before !== undefined) return before.value;
  const value = computed(of);
  known.set(of, { value });
  return value;
}

function computed(of: Expression): Fraction | undefined {
  switch (of.kind) {
    case 'number': {
      const isNegative = of.text.startsWith('-');
      const value = decimalOf(isNegative ? of.text.slice(1) : of.text);
      return value && { ...value, top: isNegative ? -value.top : value.top };
    }
    case 'call':
      return exactCall(of.name, of.of.map(exactValue));
    case 'variable':
    case 'constant':
      return undefined;
    default: {
      const [left, right] = [exactValue(of.left), exactValue(of.right)];
      if (left === undefined || right === undefined) return undefined;
      if (of.kind === 'sum') return added(left, right);
      if (of.kind === 'product') return multiplied(left, right);
      if (of.kind === 'quotient') return divided(left, right);
      const exponent = whole(right);
      return exponent === undefined || left.top === 0n ? undefined : raised(left, Number(exponent));
    }
  }
}

export type Points = (variable: string) => Complex;

const CONSTANTS: Readonly<Record<'pi' | 'e' | 'i' | 'infty', Complex>> = {
  pi: complex(Math.PI),
  e: complex(Math.E),
  i: complex(0, 1),
  infty: complex(Number.POSITIVE_INFINITY),
};
const NOTHING = complex(Number.NaN);

function call(name: string, of: readonly Complex[]): Complex {
  const [first = NOTHING, second] = of;
  if (name === 'root') return root(first, second ?? NOTHING);
  if (name === 'log') return over(ln(first), ln(second ?? complex(10)));
  const isReal = of.every(({ im }) => im === 0);
  if (name === 'max' && isReal) return complex(Math.max(...of.map(({ re }) => re)));
  if (name === 'min' && isReal) return complex(Math.min(...of.map(({ re }) => re)));
  if (name === 'floor' && isReal) return complex(Math.floor(first.re));
  if (name === 'ceil' && isReal) return complex(Math.ceil(first.re));
  return (Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name]?.(first) : undefined) ?? NOTHING;
}

/** The value with the variables at points. Its parts are `NaN` or infinite if it has none there. */
export function valueAt(of: Expression, at: Points): Complex {
  const exact = exactValue(of);
  if (exact !== undefined) return complex(numberOf(exact));
  switch (of.kind) {
    case 'number':
      return NOTHING;
    case 'variable':
      return at(of.name);
    case 'constant':
      return CONSTANTS[of.name];
    case 'call':
      return call(
        of.name,
        of.of.map((one) => valueAt(one, at)),
      );
    default: {
      const [left, right] = [valueAt(of.left, at), valueAt(of.right, at)];
      if (of.kind === 'sum') return plus(left, right);
      if (of.kind === 'product') return times(left, right);
      return of.kind === 'quotient' ? over(left, right) : power(left, right);
    }
  }
}

/** The names of its variables. */
export function variablesOf(of: Expression, found = new Set<string>()): ReadonlySet<string> {
  if (of.kind === 'variable') found.add(of.name);
  else if (of.kind === 'call') for (const one of of.of) variablesOf(one, found);
  else if ('left' in of) for (const one of [of.left, of.right]) variablesOf(one, found);
  return found;
}
