/**
 * The template library's values. Whole numbers and floats are different kinds, as in Python and unlike JavaScript, and
 * a float's text is Python's.
 */

import { Environment } from '@huggingface/jinja';
import { entriesOf, WrittenFloat } from '../../../protocol/written-json.ts';

/** A value of the library. Lists and objects hold such values again. */
export interface Value {
  readonly type: string;
  readonly value: unknown;
  toString(): string;
}

type LibraryValue = ReturnType<Environment['lookupVariable']>;
type Kind = new (value: unknown) => LibraryValue;

const library = new Environment();
function made(value: unknown): LibraryValue {
  // The library throws if a name is declared twice.
  library.variables.delete('value');
  return library.set('value', value);
}

/** The library does not export its kinds. */
const kindOf = (example: unknown): Kind => made(example).constructor as Kind;
const [Integer, Float, List, Dictionary] = [kindOf(1), kindOf(0.5), kindOf([]), kindOf({})];

/** The library's value for `given`, which may come from `readWritten`. */
export function templateValue(given: unknown): LibraryValue {
  if (typeof given === 'bigint') return new Integer(given);
  if (given instanceof WrittenFloat) return new Float(given.value);
  if (typeof given !== 'object' || given === null) return made(given);
  if (Array.isArray(given)) return new List(given.map(templateValue));
  return new Dictionary(new Map(entriesOf(given).map(([key, value]) => [key, templateValue(value)])));
}

/** Python's `repr` of a float: the shortest digits that give it back, with an exponent below 1e-4 and from 1e16 on. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const [digits = '', power = '0'] = Math.abs(value).toExponential().replace('.', '').split('e');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const rest = digits.length > 1 ? `.${digits.slice(1)}` : '';
    const power10 = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
    return `${sign}${digits.slice(0, 1)}${rest}e${power10}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  return `${sign}${digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')}.${digits.slice(exponent + 1) || '0'}`;
}
