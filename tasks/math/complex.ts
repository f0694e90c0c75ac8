/**
 * Complex numbers in double precision, each with the size of the terms that it was made of: the measure of its error.
 */

export interface Complex {
  readonly re: number;
  readonly im: number;
  /** The largest term that cancelled on the way. At least the number's own size. */
  readonly size: number;
}

export const abs = ({ re, im }: Complex): number => Math.hypot(re, im);

export function complex(re: number, im = 0, size = 0): Complex {
  return { re, im, size: Math.max(size, Math.hypot(re, im)) };
}

export const isFinite = ({ re, im, size }: Complex): boolean => [re, im, size].every(Number.isFinite);

export const plus = (a: Complex, b: Complex): Complex => complex(a.re + b.re, a.im + b.im, Math.max(a.size, b.size));

export function times(a: Complex, b: Complex): Complex {
  return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re, Math.max(a.size * abs(b), b.size * abs(a)));
}

export function over(a: Complex, b: Complex): Complex {
  const square = b.re * b.re + b.im * b.im;
  const below = abs(b);
  return complex(
    (a.re * b.re + a.im * b.im) / square,
    (a.im * b.re - a.re * b.im) / square,
    Math.max(a.size, (abs(a) * b.size) / below) / below,
  );
}

/** The relative error of the argument grows with the function's slope; none of them is steep at the points used. */
const mapped = (re: number, im: number, of: Complex): Complex =>
  complex(re, im, Math.hypot(re, im) * (of.size / Math.max(abs(of), Number.MIN_VALUE)));

export const ln = (a: Complex): Complex => mapped(Math.log(abs(a)), Math.atan2(a.im, a.re), a);

export function exp(a: Complex): Complex {
  const length = Math.exp(a.re);
  return complex(length * Math.cos(a.im), length * Math.sin(a.im), length * Math.max(1, a.size));
}

/** The principal value. Whole exponents are exact in sign. */
export function power(a: Complex, b: Complex): Complex {
  const isWhole = b.im === 0 && Number.isInteger(b.re) && Math.abs(b.re) <= 64;
  if (!isWhole) {
    if (abs(a) === 0) return complex(b.re > 0 ? 0 : Number.NaN);
    return exp(times(b, ln(a)));
  }
  let result = complex(1);
  for (let n = Math.abs(b.re); n > 0; n -= 1) result = times(result, a);
  return b.re < 0 ? over(complex(1), result) : result;
}

/** The real root of a real number where there is one, as texts of school mean it; else the principal one. */
export function root(a: Complex, degree: Complex): Complex {
  const isOdd = degree.im === 0 && Math.abs(degree.re % 2) === 1;
  if (a.im === 0 && a.re < 0 && isOdd) {
    const real = root({ ...a, re: -a.re }, degree);
    return { ...real, re: -real.re };
  }
  return abs(a) === 0 ? a : power(a, over(complex(1), degree));
}

const I = complex(0, 1);
const minus = (a: Complex): Complex => times(complex(-1), a);
const [half, one] = [complex(0.5), complex(1)];

const sin = (a: Complex): Complex => mapped(Math.sin(a.re) * Math.cosh(a.im), Math.cos(a.re) * Math.sinh(a.im), a);
const cos = (a: Complex): Complex => mapped(Math.cos(a.re) * Math.cosh(a.im), -Math.sin(a.re) * Math.sinh(a.im), a);
const sinh = (a: Complex): Complex => times(half, plus(exp(a), minus(exp(minus(a)))));
const cosh = (a: Complex): Complex => times(half, plus(exp(a), exp(minus(a))));

/** `arcsin z = -i ln(iz + sqrt(1 - z²))`. */
function asin(a: Complex): Complex {
  if (a.im === 0 && Math.abs(a.re) <= 1) return complex(Math.asin(a.re));
  return minus(times(I, ln(plus(times(I, a), power(plus(one, minus(times(a, a))), half)))));
}

/** `arctan z = (i/2) ln((i + z) / (i - z))`. */
function atan(a: Complex): Complex {
  if (a.im === 0) return complex(Math.atan(a.re));
  return times(times(half, I), ln(over(plus(I, a), plus(I, minus(a)))));
}

export const FUNCTIONS: Readonly<Record<string, (a: Complex) => Complex>> = {
  sin,
  cos,
  tan: (a) => over(sin(a), cos(a)),
  cot: (a) => over(cos(a), sin(a)),
  sec: (a) => over(one, cos(a)),
  csc: (a) => over(one, sin(a)),
  sinh,
  cosh,
  tanh: (a) => over(sinh(a), cosh(a)),
  asin,
  acos: (a) => plus(complex(Math.PI / 2), minus(asin(a))),
  atan,
  ln,
  exp,
  abs: (a) => complex(abs(a), 0, a.size),
};
