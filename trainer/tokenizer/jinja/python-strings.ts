/**
 * Python's strings instead of the library's JavaScript strings: `strip`, `lstrip` and `rstrip` take the characters to
 * strip, and values are printed as `True`, `None` or `{'a': 1}`.
 */

import { call, isNode, list, type Node, text } from './nodes.ts';
import { pythonFloat, pythonString } from '../../../protocol/python-text.ts';
import type { Value } from './values.ts';

/** White space by Python's `str.isspace`. JavaScript's `trim` strips U+FEFF too, and keeps ASCII's separators. */
const SPACES = new Set(
  '\t\n\v\f\r\u001C\u001D\u001E\u001F ' +
    '\u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000',
);

const SIDES = { strip: [true, true], lstrip: [true, false], rstrip: [false, true] } as const;
type Strip = keyof typeof SIDES;
const isStrip = (name: unknown): name is Strip => typeof name === 'string' && Object.hasOwn(SIDES, name);

/** Python's `str.strip`, `lstrip` and `rstrip`; `chars` absent: white space. */
export function strip(value: string, chars?: string | null, which: Strip = 'strip'): string {
  const [left, right] = SIDES[which];
  const stripped = typeof chars === 'string' ? new Set(chars) : SPACES;
  const letters = Array.from(value);
  let [begin, end] = [0, letters.length];
  while (left && begin < end && stripped.has(letters[begin] ?? '')) begin += 1;
  while (right && end > begin && stripped.has(letters[end - 1] ?? '')) end -= 1;
  return letters.slice(begin, end).join('');
}

/** Python's `repr`. */
function reprOf(given: Value): string {
  const { type, value } = given;
  if (typeof value === 'string') return pythonString(value);
  if (type === 'ObjectValue' && value instanceof Map) {
    const entries = [...(value as Map<string, Value>)].map(([key, child]) => `${pythonString(key)}: ${reprOf(child)}`);
    return `{${entries.join(', ')}}`;
  }
  if (Array.isArray(value)) {
    const parts = (value as Value[]).map(reprOf).join(', ');
    return type === 'TupleValue' ? `(${parts})` : `[${parts}]`;
  }
  return textOf(given);
}

/** Python's `str`; an undefined value is the empty text. */
function textOf(given: Value): string {
  const { type, value } = given;
  if (type === 'UndefinedValue') return '';
  if (type === 'NullValue') return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (type === 'FloatValue') return pythonFloat(value as number);
  return Array.isArray(value) || type === 'ObjectValue' ? reprOf(given) : given.toString();
}

const PRINT = '__python_str';
const STRIP = '__python_strip';
const TRIM = '__python_trim';
const JOIN = '__python_join';

/** The functions that rewritten templates call. Values are passed in a list, in which they keep their kinds. */
export const PYTHON_STRINGS: Readonly<Record<string, unknown>> = {
  [PRINT]: ([value]: readonly [Value]) => textOf(value),
  [STRIP]: (which: Strip, value: unknown, chars?: string | null) => {
    if (typeof value !== 'string')
      throw new TypeError(
        `${which} needs a string, but it is called on ${value === undefined ? 'an undefined value' : 'another value'}`,
      );
    return strip(value, chars, which);
  },
  [TRIM]: ([value]: readonly [Value], chars?: string | null) => strip(textOf(value), chars),
  [JOIN]: ([given]: readonly [Value], between: string | null = '') => {
    const { value } = given;
    const parts = Array.isArray(value)
      ? (value as Value[]).map(textOf)
      : value instanceof Map
        ? [...value.keys()]
        : Array.from(textOf(given));
    return parts.join(between ?? '');
  },
};

const printed = (node: unknown): Node => call(PRINT, list(node));

/** A call's arguments, with the values of keywords (here `chars=`) in their places. */
const positional = (args: unknown): unknown[] =>
  Array.isArray(args)
    ? args.map((arg: unknown) => (isNode(arg) && arg.type === 'KeywordArgumentExpression' ? arg['value'] : arg))
    : [];

const hasKeyword = (args: unknown, name: string): boolean =>
  Array.isArray(args) &&
  args.some(
    (arg: unknown) =>
      isNode(arg) && arg.type === 'KeywordArgumentExpression' && isNode(arg['key']) && arg['key']['value'] === name,
  );

function stripped(node: Node): Node {
  const { callee } = node;
  if (!isNode(callee) || callee.type !== 'MemberExpression' || callee['computed'] === true) return node;
  const { property } = callee;
  const name = isNode(property) ? property['value'] : undefined;
  return isStrip(name) ? call(STRIP, text(name), callee['object'], ...positional(node['args'])) : node;
}

function filtered(node: Node): Node {
  const { operand, filter } = node;
  if (!isNode(filter)) return node;
  const name =
    filter.type === 'CallExpression' && isNode(filter['callee']) ? filter['callee']['value'] : filter['value'];
  if (name === 'trim') return call(TRIM, list(operand), ...positional(filter['args']));
  const args = positional(filter['args']);
  // `join` by an attribute stays the library's.
  if (name === 'join' && args.length < 2 && !hasKeyword(filter['args'], 'attribute'))
    return call(JOIN, list(operand), ...args);
  return name === 'string' ? printed(operand) : node;
}

function joined(node: Node): Node {
  const { operator, left, right } = node;
  if (typeof operator !== 'object' || operator === null || !('value' in operator) || operator.value !== '~')
    return node;
  return Object.assign(node, { left: printed(left), right: printed(right) });
}

const BODIES = ['body', 'alternate', 'defaultBlock'] as const;
const STATEMENTS = new Set([
  'If',
  'For',
  'Break',
  'Continue',
  'Set',
  'Macro',
  'Comment',
  'CallStatement',
  'FilterStatement',
  'StringLiteral',
]);

/** An expression in the place of a statement is printed. */
function printing(node: Node): Node {
  for (const key of BODIES) {
    const body = node[key];
    if (Array.isArray(body))
      node[key] = body.map((one: unknown) => (isNode(one) && !STATEMENTS.has(one.type) ? printed(one) : one));
  }
  return node;
}

/** The node with Python's strings; for `rewrite`. */
export function usePythonStrings(node: Node): Node {
  if (node.type === 'CallExpression') return stripped(node);
  if (node.type === 'FilterExpression') return filtered(node);
  if (node.type === 'BinaryExpression') return joined(node);
  return printing(node);
}
