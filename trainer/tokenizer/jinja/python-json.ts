/** The filter `tojson` as in `transformers`: Python's `json.dumps`, which prints `12.0` and `1e-07`. */

import { call, identifier, isNode, list, type Node } from './nodes.ts';
import { pythonFloat } from '../../../protocol/python-text.ts';
import { ChatTemplateRefused, type Value } from './values.ts';

interface Format {
  readonly ascii: boolean;
  /** Indentation of one level; `null`: everything in one line. */
  readonly indent: string | null;
  readonly item: string;
  readonly key: string;
  readonly sorted: boolean;
}

function quotedText(value: string, { ascii }: Format): string {
  const text = JSON.stringify(value);
  return ascii
    ? text.replace(/[^ -~]/gu, (letter) =>
        Array.from(
          { length: letter.length },
          (_, i) => `\\u${letter.charCodeAt(i).toString(16).padStart(4, '0')}`,
        ).join(''),
      )
    : text;
}

const NOT_FINITE: Readonly<Record<string, string>> = { nan: 'NaN', inf: 'Infinity', '-inf': '-Infinity' };

function scalar(given: Value, format: Format): string {
  const { type, value } = given;
  if (typeof value === 'string') return quotedText(value, format);
  if (type === 'UndefinedValue') throw new ChatTemplateRefused('the template writes an undefined value as JSON');
  if (type !== 'FloatValue') return type === 'NullValue' ? 'null' : given.toString();
  const text = pythonFloat(value as number);
  return NOT_FINITE[text] ?? text;
}

function enclosed(
  [open, close]: readonly [string, string],
  parts: readonly string[],
  { indent, item }: Format,
  depth: number,
): string {
  if (indent === null || parts.length === 0) return `${open}${parts.join(item)}${close}`;
  const line = `\n${indent.repeat(depth + 1)}`;
  return `${open}${line}${parts.join(`${item}${line}`)}\n${indent.repeat(depth)}${close}`;
}

function dumped(given: Value, format: Format, depth: number): string {
  const { value } = given;
  if (Array.isArray(value))
    return enclosed(
      ['[', ']'],
      (value as Value[]).map((one) => dumped(one, format, depth + 1)),
      format,
      depth,
    );
  if (!(value instanceof Map)) return scalar(given, format);
  const entries = [...(value as Map<string, Value>)];
  if (format.sorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
  const parts = entries.map(
    ([key, child]) => `${quotedText(key, format)}${format.key}${dumped(child, format, depth + 1)}`,
  );
  return enclosed(['{', '}'], parts, format, depth);
}

type Arguments = readonly [
  ascii?: boolean | null,
  indent?: number | string | null,
  separators?: readonly [Value, Value] | null,
  sorted?: boolean | null,
];

function toJson([value]: readonly [Value], ...[ascii, indent, separators, sorted]: Arguments): string {
  const [item, key] = separators?.map(String) ?? [
    typeof indent === 'number' || typeof indent === 'string' ? ',' : ', ',
    ': ',
  ];
  const level = typeof indent === 'number' ? ' '.repeat(Math.max(0, indent)) : (indent ?? null);
  return dumped(
    value,
    { ascii: ascii === true, indent: level, item: item ?? ', ', key: key ?? ': ', sorted: sorted === true },
    0,
  );
}

const NAME = '__python_json';
const KEYWORDS = ['ensure_ascii', 'indent', 'separators', 'sort_keys'] as const;

/** The function that rewritten templates call. The value is passed in a list, in which it keeps its kind. */
export const PYTHON_JSON: Readonly<Record<string, unknown>> = { [NAME]: toJson };

/** The arguments in the order of `transformers`, keywords included. */
function placed(given: unknown): unknown[] {
  const args = Array.isArray(given) ? (given as unknown[]).filter(isNode) : [];
  const positional = args.filter(({ type }) => type !== 'KeywordArgumentExpression');
  const named = new Map(
    args.flatMap(({ type, key, value }) =>
      type === 'KeywordArgumentExpression' && isNode(key) ? [[key['value'], value] as const] : [],
    ),
  );
  return KEYWORDS.map((keyword, i) => positional[i] ?? named.get(keyword) ?? identifier('none'));
}

/** The node with Python's `tojson`; for `rewrite`. */
export function usePythonJson(node: Node): Node {
  const { operand, filter } = node;
  if (node.type !== 'FilterExpression' || !isNode(filter)) return node;
  const name =
    filter.type === 'CallExpression' && isNode(filter['callee']) ? filter['callee']['value'] : filter['value'];
  return name === 'tojson' ? call(NAME, list(operand), ...placed(filter['args'])) : node;
}
