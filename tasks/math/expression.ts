/**
 * Expressions of an answer: the parser of tokens, bounded in depth. What is no expression has no tree: nothing is
 * guessed from a part of it.
 */

import type { Token } from './latex-tokens.ts';

export type Expression =
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'constant'; readonly name: 'pi' | 'e' | 'i' | 'infty' }
  | { readonly kind: 'sum' | 'product' | 'quotient' | 'power'; readonly left: Expression; readonly right: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly of: readonly Expression[] };

const DEEPEST = 40;
const FUNCTIONS = new Set(
  'sin cos tan cot sec csc sinh cosh tanh asin acos atan ln log exp max min gcd lcm'.split(' '),
);
const GREEK = new Set(
  (
    'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi ' +
    'varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell'
  ).split(' '),
);

const number = (text: string): Expression => ({ kind: 'number', text });
const minusOne: Expression = { kind: 'product', left: number('-1'), right: number('1') };
const negated = (of: Expression): Expression => ({ kind: 'product', left: minusOne, right: of });

class NoExpression extends Error {}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;
  #bars = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  whole(): Expression {
    const found = this.#sum();
    if (this.#at < this.#tokens.length) throw new NoExpression();
    return found;
  }

  #is(text: string, ahead = 0): boolean {
    const token = this.#tokens[this.#at + ahead];
    return token !== undefined && token.kind !== 'words' && token.text === text;
  }

  #take(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#at += 1;
    return true;
  }

  #need(text: string): void {
    if (!this.#take(text)) throw new NoExpression();
  }

  #deeper<T>(make: () => T): T {
    this.#depth += 1;
    if (this.#depth > DEEPEST) throw new NoExpression();
    const made = make();
    this.#depth -= 1;
    return made;
  }

  #sum(): Expression {
    return this.#deeper(() => {
      let found = this.#take('-') ? negated(this.#product()) : (this.#take('+'), this.#product());
      for (;;) {
        if (this.#take('+')) found = { kind: 'sum', left: found, right: this.#product() };
        else if (this.#take('-')) found = { kind: 'sum', left: found, right: negated(this.#product()) };
        else return found;
      }
    });
  }

  #product(): Expression {
    let found = this.#signed();
    for (;;) {
      if (this.#take('*')) found = { kind: 'product', left: found, right: this.#signed() };
      else if (this.#take('/')) found = { kind: 'quotient', left: found, right: this.#signed() };
      else if (this.#beginsFactor()) found = this.#beside(found);
      else return found;
    }
  }

  /** `3\frac{1}{2}` is a mixed number, other neighbours are a product. */
  #beside(left: Expression): Expression {
    const isFraction = this.#is('frac');
    const right = this.#power();
    const isMixed =
      isFraction && left.kind === 'number' && /^\d+$/.test(left.text) && right.kind === 'quotient' && isProper(right);
    return { kind: isMixed ? 'sum' : 'product', left, right };
  }

  #signed(): Expression {
    return this.#deeper(() => {
      if (this.#take('-')) return negated(this.#signed());
      if (this.#take('+')) return this.#signed();
      return this.#power();
    });
  }

  #beginsFactor(): boolean {
    const token = this.#tokens[this.#at];
    if (token === undefined || token.kind === 'words') return false;
    if (token.kind === 'number') {
      // Two numbers in a row are no product.
      return this.#tokens[this.#at - 1]?.kind !== 'number';
    }
    if (token.kind === 'letter') return true;
    if (token.kind === 'symbol')
      return ['(', '{', '['].includes(token.text) || (token.text === '|' && this.#bars === 0);
    return isPrimary(token.text);
  }

  #power(): Expression {
    let base = this.#postfix();
    if (this.#take('^')) {
      // `\sin^2 x` is read where the function is.
      base = { kind: 'power', left: base, right: this.#argument() };
      while (this.#take('!')) base = { kind: 'call', name: 'factorial', of: [base] };
    }
    return base;
  }

  #postfix(): Expression {
    let found = this.#primary();
    while (this.#take('!')) found = { kind: 'call', name: 'factorial', of: [found] };
    return found;
  }

  /** What a command or an exponent takes: braces, or the next digit, letter or command. */
  #argument(): Expression {
    return this.#deeper(() => {
      if (this.#take('{')) {
        const found = this.#sum();
        this.#need('}');
        return found;
      }
      if (this.#take('-')) return negated(this.#argument());
      const token = this.#tokens[this.#at];
      if (token?.kind === 'number') return this.#digits(token.text);
      return this.#primary();
    });
  }

  /** `\frac12` has two arguments, `x^{12}` and `2^10` one: without braces LaTeX takes one digit, people mean all. */
  #digits(text: string): Expression {
    this.#at += 1;
    return number(text);
  }

  #fraction(): Expression {
    const token = this.#tokens[this.#at];
    if (token?.kind === 'number' && /^\d{2,}$/.test(token.text) && token.text.length === 2) {
      this.#at += 1;
      return { kind: 'quotient', left: number(token.text[0] ?? ''), right: number(token.text[1] ?? '') };
    }
    if (token?.kind === 'number' && /^\d/.test(token.text) && token.text.length > 1 && !this.#is('{', 1)) {
      // `\frac123` is 1/2 and 3 beside it: nobody means that.
      throw new NoExpression();
    }
    const left = this.#argument();
    return { kind: 'quotient', left, right: this.#argument() };
  }

  #bracketed(close: string): Expression {
    const bars = this.#bars;
    this.#bars = 0;
    const found = this.#sum();
    this.#need(close);
    this.#bars = bars;
    return found;
  }

  #primary(): Expression {
    return this.#deeper(() => {
      const token = this.#tokens[this.#at];
      if (token === undefined) throw new NoExpression();
      this.#at += 1;
      if (token.kind === 'number') return number(token.text);
      if (token.kind === 'letter') return this.#variable(token.text);
      if (token.kind === 'command') return this.#command(token.text);
      if (token.kind === 'symbol') {
        if (token.text === '(') return this.#bracketed(')');
        if (token.text === '[') return this.#bracketed(']');
        if (token.text === '{') return this.#bracketed('}');
        if (token.text === '|') return this.#absolute();
      }
      throw new NoExpression();
    });
  }

  #absolute(): Expression {
    this.#bars += 1;
    const of = [this.#sum()];
    this.#need('|');
    this.#bars -= 1;
    return { kind: 'call', name: 'abs', of };
  }

  #variable(name: string): Expression {
    if (this.#take('_')) return { kind: 'variable', name: `${name}_${JSON.stringify(this.#argument())}` };
    if (name === 'e' || name === 'i') return { kind: 'constant', name };
    return { kind: 'variable', name };
  }

  #command(name: string): Expression {
    if (name === 'frac') return this.#fraction();
    if (name === 'pi' || name === 'infty') return { kind: 'constant', name };
    if (name === 'binom') return { kind: 'call', name, of: [this.#argument(), this.#argument()] };
    if (name === 'sqrt') {
      if (!this.#take('[')) return { kind: 'call', name: 'root', of: [this.#argument(), number('2')] };
      const degree = this.#bracketed(']');
      return { kind: 'call', name: 'root', of: [this.#argument(), degree] };
    }
    if (name === 'lfloor' || name === 'lceil')
      return { kind: 'call', name: name.slice(1), of: [this.#bracketed(name === 'lfloor' ? 'rfloor' : 'rceil')] };
    if (FUNCTIONS.has(name)) return this.#function(name);
    if (GREEK.has(name)) return this.#variable(name);
    throw new NoExpression();
  }

  #function(name: string): Expression {
    const base = name === 'log' && this.#take('_') ? [this.#argument()] : [];
    const exponent = this.#take('^') ? this.#argument() : undefined;
    const of = [this.#applied(), ...base];
    const isInverse = exponent !== undefined && isMinusOne(exponent);
    const called: Expression = { kind: 'call', name: isInverse ? `a${name}` : name, of };
    return exponent === undefined || isInverse ? called : { kind: 'power', left: called, right: exponent };
  }

  /** `\sin 2x` is of the product, `\sin(x) y` of what is in the brackets. */
  #applied(): Expression {
    if (this.#is('(') || this.#is('{') || this.#is('[')) return this.#primary();
    let found = this.#power();
    while (this.#beginsFactor() && !FUNCTIONS.has(this.#tokens[this.#at]?.text ?? '') && !this.#is('(')) {
      found = { kind: 'product', left: found, right: this.#power() };
    }
    return found;
  }
}

const isPrimary = (name: string): boolean =>
  ['frac', 'pi', 'infty', 'binom', 'sqrt', 'lfloor', 'lceil'].includes(name) || FUNCTIONS.has(name) || GREEK.has(name);

const isMinusOne = (of: Expression): boolean =>
  of.kind === 'product' && of.left === minusOne && of.right.kind === 'number' && of.right.text === '1';

function isProper({ left, right }: Extract<Expression, { left: unknown }>): boolean {
  if (left.kind !== 'number' || right.kind !== 'number') return false;
  return /^\d{1,15}$/.test(left.text) && /^\d{1,15}$/.test(right.text) && Number(left.text) < Number(right.text);
}

/** `undefined` for tokens that are no expression. */
export function parseExpression(tokens: readonly Token[]): Expression | undefined {
  try {
    return new Parser(tokens).whole();
  } catch (error) {
    if (error instanceof NoExpression) return undefined;
    throw error;
  }
}
