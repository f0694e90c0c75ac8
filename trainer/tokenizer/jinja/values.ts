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
