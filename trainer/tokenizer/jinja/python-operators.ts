/**
 * Python's operators, dictionaries and loops instead of the library's: `+` takes values of one kind, `==` compares
 * values and not their texts, a method of a dictionary is found beside a key of its name, and letters can be looped
 * over. What Python refuses is refused.
 */

import { call, isNode, type Node, text } from './nodes.ts';
import {
  ChatTemplateRefused,
  floatValue,
  functionValue,
  integerValue,
  listValue,
  NOTHING,
  textValue,
  truthValue,
  type Value,
} from './values.ts';

const NUMBERS = new Set(['IntegerValue', 'FloatValue', 'BooleanValue']);
const isNumber = ({ type }: Value): boolean => NUMBERS.has(type);
const numeric = ({ value }: Value): number | bigint => (typeof value === 'boolean' ? Number(value) : value) as number;
const isList = ({ value }: Value): boolean => Array.isArray(value);
const isMap = ({ value }: Value): boolean => value instanceof Map;
const itemsOf = ({ value }: Value): readonly Value[] => value as Value[];
const entriesOf = ({ value }: Value): ReadonlyMap<string, Value> => value as Map<string, Value>;

const KINDS: Readonly<Record<string, string>> = {
  StringValue: 'a text',
  ArrayValue: 'a list',
  TupleValue: 'a tuple',
  ObjectValue: 'a dictionary',
  NullValue: 'None',
  UndefinedValue: 'an undefined value',
};
const kindOf = (value: Value): string => KINDS[value.type] ?? (isNumber(value) ? 'a number' : 'another value');

function sum(left: Value, right: Value): Value {
  if (typeof left.value === 'string' && typeof right.value === 'string') return textValue(left.value + right.value);
  if (isList(left) && left.type === right.type) return listValue([...itemsOf(left), ...itemsOf(right)]);
  if (!isNumber(left) || !isNumber(right))
    throw new ChatTemplateRefused(`the template adds ${kindOf(right)} to ${kindOf(left)}`);
  const [a, b] = [numeric(left), numeric(right)];
  if ([left, right].some(({ type }) => type === 'FloatValue')) return floatValue(Number(a) + Number(b));
  return integerValue(typeof a === 'number' && typeof b === 'number' ? a + b : BigInt(a) + BigInt(b));
}

function areEqual(left: Value, right: Value): boolean {
  // Python's `1 == 1.0 == True`, and integers have any length.
  if (isNumber(left) && isNumber(right)) return numeric(left) == numeric(right);
  if (left.type !== right.type) return false;
  if (isList(left)) {
    const [one, other] = [itemsOf(left), itemsOf(right)];
    return one.length === other.length && one.every((item, i) => areEqual(item, other[i] as Value));
  }
  // The library has two values for None.
  if (!isMap(left)) return left.type === 'NullValue' || left.value === right.value;
  const [one, other] = [entriesOf(left), entriesOf(right)];
  return (
    one.size === other.size &&
    [...one].every(([key, value]) => {
      const twin = other.get(key);
      return twin !== undefined && areEqual(value, twin);
    })
  );
}

function isIn(item: Value, all: Value): boolean {
  if (all.type === 'UndefinedValue') return false;
  if (isList(all)) return itemsOf(all).some((one) => areEqual(item, one));
  if (isMap(all)) return typeof item.value === 'string' && entriesOf(all).has(item.value);
  if (typeof all.value === 'string' && typeof item.value === 'string') return all.value.includes(item.value);
  throw new ChatTemplateRefused(`the template looks for ${kindOf(item)} in ${kindOf(all)}`);
}

/** What a loop goes over: an undefined value has nothing, a text has letters. The library loops over the rest. */
function each(value: Value): Value {
  if (value.type === 'UndefinedValue') return listValue([]);
  return typeof value.value === 'string' ? listValue(Array.from(value.value, textValue)) : value;
}

const METHODS = new Set(['get', 'items', 'keys', 'values']);

interface WithMethods extends Value {
  readonly builtins: ReadonlyMap<string, { readonly value: (args: readonly Value[]) => Value }>;
}

/** Python's Jinja looks for a method before it looks for a key. */
function called(name: string, object: Value, args: readonly Value[], scope: unknown): Value {
  const own = object.type === 'NamespaceValue' ? entriesOf(object).get(name) : undefined;
  if (own?.type === 'FunctionValue') return (own.value as (all: readonly Value[], at: unknown) => Value)(args, scope);
  const method = (object as Partial<WithMethods>).builtins?.get(name);
  if (method === undefined) throw new ChatTemplateRefused(`the template calls ${name} of ${kindOf(object)}`);
  return method.value(args);
}

type Tests = ReadonlyMap<string, (...values: Value[]) => boolean>;
const EQUAL = new Set(['equalto', 'eq', '==']);
const UNEQUAL = new Set(['ne', '!=']);

/** The member at the end of a path. Only the last one may be undefined. */
function attribute(value: Value, path: string): Value {
  let at = value;
  for (const name of path.split('.')) {
    if (at.type === 'UndefinedValue') throw new ChatTemplateRefused(`the template reads ${name} of ${kindOf(at)}`);
    at = (isMap(at) ? entriesOf(at).get(name) : undefined) ?? NOTHING;
  }
  return at;
}

/** The filters `select`, `reject`, `selectattr` and `rejectattr`. `given`: the attribute, the test and its values. */
function filtered(filter: string, operand: Value, given: readonly Value[], tests: Tests): Value {
  const hasAttribute = filter.endsWith('attr');
  const [name, ...values] = hasAttribute ? given.slice(1) : given;
  const path = hasAttribute ? String(given[0]?.value) : undefined;
  const test = String(name?.value);
  const found = tests.get(test);
  const holds = (one: Value): boolean => {
    if (name === undefined) return one.__bool__().value;
    if (EQUAL.has(test) || UNEQUAL.has(test)) return areEqual(one, values[0] ?? one) === EQUAL.has(test);
    if (test === 'in') return isIn(one, values[0] ?? one);
    if (found === undefined) throw new ChatTemplateRefused(`the template uses the unknown test ${test}`);
    return found(one, ...values);
  };
  const isWanted = filter.startsWith('select');
  const items = each(operand);
  if (!isList(items)) throw new ChatTemplateRefused(`the template selects from ${kindOf(operand)}`);
  return listValue(itemsOf(items).filter((one) => holds(path === undefined ? one : attribute(one, path)) === isWanted));
}

const SUM = '__python_sum';
const EQUALS = '__python_equals';
const IN = '__python_in';
const EACH = '__python_each';
const METHOD = '__python_method';
const SELECT = '__python_select';

/** The functions that rewritten templates call. */
export const PYTHON_OPERATORS: Readonly<Record<string, unknown>> = {
  [SUM]: functionValue(([left = NOTHING, right = NOTHING]) => sum(left, right)),
  [EQUALS]: functionValue(([left = NOTHING, right = NOTHING]) => truthValue(areEqual(left, right))),
  [IN]: functionValue(([item = NOTHING, all = NOTHING]) => truthValue(isIn(item, all))),
  [EACH]: functionValue(([value = NOTHING]) => each(value)),
  [METHOD]: functionValue(([name, object = NOTHING, ...args], scope) =>
    called(String(name?.value), object, args, scope),
  ),
  [SELECT]: functionValue(([filter, operand = NOTHING, ...given], scope) =>
    filtered(String(filter?.value), operand, given, (scope as { readonly tests: Tests }).tests),
  ),
};

const not = (argument: Node): Node => ({
  type: 'UnaryExpression',
  operator: { value: 'not', type: 'UnaryOperator' },
  argument,
});

function operated(node: Node): Node {
  const { operator, left, right } = node;
  switch ((operator as { readonly value?: unknown } | undefined)?.value) {
    case '+':
      return call(SUM, left, right);
    case '==':
      return call(EQUALS, left, right);
    case '!=':
      return not(call(EQUALS, left, right));
    case 'in':
      return call(IN, left, right);
    case 'not in':
      return not(call(IN, left, right));
    default:
      return node;
  }
}

function methodCalled(node: Node): Node {
  const { callee, args } = node;
  if (!isNode(callee) || callee.type !== 'MemberExpression' || callee['computed'] === true) return node;
  const { property } = callee;
  const name = isNode(property) ? property['value'] : undefined;
  return typeof name === 'string' && METHODS.has(name)
    ? call(METHOD, text(name), callee['object'], ...((args ?? []) as unknown[]))
    : node;
}

const FILTERS = new Set(['select', 'reject', 'selectattr', 'rejectattr']);

function selected(node: Node): Node {
  const { operand, filter } = node;
  if (!isNode(filter)) return node;
  const isCalled = filter.type === 'CallExpression';
  const name = isCalled && isNode(filter['callee']) ? filter['callee']['value'] : filter['value'];
  if (typeof name !== 'string' || !FILTERS.has(name)) return node;
  return call(SELECT, text(name), operand, ...((isCalled ? filter['args'] : []) as unknown[]));
}

/** The loop over what Python loops over. Templates write `for call in message.tool_calls` where there are none. */
function looped(node: Node): Node {
  const { iterable } = node;
  if (isNode(iterable) && iterable.type === 'SelectExpression') iterable['lhs'] = call(EACH, iterable['lhs']);
  else node['iterable'] = call(EACH, iterable);
  return node;
}

/** The node with Python's operators; for `rewrite`. */
export function usePythonOperators(node: Node): Node {
  switch (node.type) {
    case 'BinaryExpression':
      return operated(node);
    case 'CallExpression':
      return methodCalled(node);
    case 'FilterExpression':
      return selected(node);
    case 'For':
      return looped(node);
    default:
      return node;
  }
}
