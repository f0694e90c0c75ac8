/** Operators of the generated code, with Python's semantics for integers. */

export type Operator = '+' | '-' | '*' | '%';
export type Comparison = '<' | '<=' | '>' | '>=';

/** The result of `%` has the sign of the divisor, as in Python. Errors: `RangeError` for a division by zero. */
export function apply(operator: Operator, a: number, b: number): number {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '%':
      if (b === 0) throw new RangeError('modulo by zero');
      return ((a % b) + b) % b;
  }
}

export function compare(comparison: Comparison, a: number, b: number): boolean {
  switch (comparison) {
    case '<':
      return a < b;
    case '<=':
      return a <= b;
    case '>':
      return a > b;
    case '>=':
      return a >= b;
  }
}
