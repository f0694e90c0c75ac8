/** Exact arithmetic on written expressions: fractions of whole numbers, so that no digit is ever lost. */

/** An expression that cannot be computed. The message says what is wrong with it. */
export class BadExpression extends Error {
  override readonly name = 'BadExpression';
}

type Fraction = readonly [numerator: bigint, denominator: bigint];

/** Longer expressions are refused: numbers stay small, and the depth of brackets is bounded. */
export const LONGEST = 200;
const DECIMALS = 12;

const abs = (value: bigint): bigint => (value < 0n ? -value : value);

function apply(sign: string, [a, b]: Fraction, [c, d]: Fraction): Fraction {
  if (sign === '+') return [a * d + c * b, b * d];
  if (sign === '-') return [a * d - c * b, b * d];
  if (sign === '*') return [a * c, b * d];
  if (c === 0n) throw new BadExpression('division by zero');
  return c < 0n ? [-a * d, -b * c] : [a * d, b * c];
}

class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    if (text.length > LONGEST) throw new BadExpression(`write at most ${LONGEST} characters`);
    this.#tokens = text.match(/\d+(?:\.\d+)?|\S/g) ?? [];
  }

  whole(): Fraction {
    const value = this.#chain(['+', '-'], () => this.#chain(['*', '/'], () => this.#part()));
    if (this.#at < this.#tokens.length) throw new BadExpression(`${this.#tokens[this.#at]} is not expected here`);
    return value;
  }

  #chain(signs: readonly string[], part: () => Fraction): Fraction {
    let value = part();
    for (let sign = this.#tokens[this.#at]; sign !== undefined && signs.includes(sign); sign = this.#tokens[this.#at]) {
      this.#at += 1;
      value = apply(sign, value, part());
    }
    return value;
  }

  #part(): Fraction {
    const token = this.#tokens[this.#at] ?? '';
    this.#at += 1;
    if (token === '-') return apply('-', [0n, 1n], this.#part());
    if (/^\d/.test(token)) {
      const [digits = '', decimals = ''] = token.split('.');
      return [BigInt(digits + decimals), 10n ** BigInt(decimals.length)];
    }
    if (token !== '(') throw new BadExpression(`${token === '' ? 'the end' : token} is not expected here`);
    const inner = this.#chain(['+', '-'], () => this.#chain(['*', '/'], () => this.#part()));
    if (this.#tokens[this.#at] !== ')') throw new BadExpression(') is missing');
    this.#at += 1;
    return inner;
  }
}

/** The value as a decimal number, cut after twelve decimals. Errors: `BadExpression`. */
export function compute(expression: string): string {
  const [a, b] = new Parser(expression).whole();
  const scaled = ((abs(a) * 10n ** BigInt(DECIMALS)) / b).toString().padStart(DECIMALS + 1, '0');
  const decimals = scaled.slice(-DECIMALS).replace(/0+$/, '');
  const value = `${scaled.slice(0, -DECIMALS)}${decimals === '' ? '' : `.${decimals}`}`;
  return a < 0n && /[1-9]/.test(value) ? `-${value}` : value;
}
