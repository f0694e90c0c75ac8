/** The template library's values. Whole numbers and floats are different kinds, as in Python and unlike JavaScript. */

import { Environment } from '@huggingface/jinja';
import { entriesOf, WrittenFloat } from '../../../protocol/written-json.ts';

/** A template refused the messages: through its own `raise_exception`, or since it cannot do with them what it says. */
export class ChatTemplateRefused extends Error {
  override readonly name = 'ChatTemplateRefused';
}

/** A value of the library. Lists and objects hold such values again. */
export interface Value {
  readonly type: string;
  readonly value: unknown;
  toString(): string;
  /** Its truth, as in Python. */
  __bool__(): { readonly value: boolean };
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
const [Text, Truth, Function] = [kindOf('a'), kindOf(true), kindOf(() => 1)];

export const integerValue = (value: number | bigint): Value => new Integer(value);
export const floatValue = (value: number): Value => new Float(value);
export const textValue = (value: string): Value => new Text(value);
export const truthValue = (value: boolean): Value => new Truth(value);
export const listValue = (values: readonly Value[]): Value => new List(values);
export const NOTHING: Value = made(undefined);

/** A function of templates that gets and gives the library's values. `scope`: the library's, with its tests. */
export const functionValue = (run: (args: readonly Value[], scope: unknown) => Value): Value => new Function(run);

/** The library's value for `given`, which may come from `readWritten`. */
export function templateValue(given: unknown): LibraryValue {
  if (given instanceof Function) return given as LibraryValue;
  if (typeof given === 'bigint') return new Integer(given);
  if (given instanceof WrittenFloat) return new Float(given.value);
  if (typeof given !== 'object' || given === null) return made(given);
  if (Array.isArray(given)) return new List(given.map(templateValue));
  return new Dictionary(new Map(entriesOf(given).map(([key, value]) => [key, templateValue(value)])));
}
