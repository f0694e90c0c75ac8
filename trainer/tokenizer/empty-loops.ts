/**
 * Loops over a variable that is not there run no time, as in Python's Jinja, where the library throws: templates write
 * `for call in message.tool_calls` for messages that have none.
 */

interface Node {
  readonly type: string;
}

const isNode = (value: unknown): value is Node & Record<string, unknown> =>
  typeof value === 'object' && value !== null && 'type' in value;

/** `operand | default([])`. */
const orNothing = (operand: unknown): Node & Record<string, unknown> => ({
  type: 'FilterExpression',
  operand,
  filter: {
    type: 'CallExpression',
    callee: { type: 'Identifier', value: 'default' },
    args: [{ type: 'ArrayLiteral', value: [] }],
  },
});

function rewriteFor(loop: Record<string, unknown>): void {
  const { iterable } = loop;
  if (isNode(iterable) && iterable.type === 'SelectExpression') iterable['lhs'] = orNothing(iterable['lhs']);
  else loop['iterable'] = orNothing(iterable);
}

/** Changes the parsed template in place. */
export function allowEmptyLoops(node: unknown): void {
  if (Array.isArray(node)) {
    for (const child of node) allowEmptyLoops(child);
    return;
  }
  if (node instanceof Map) {
    for (const [key, value] of node) allowEmptyLoops([key, value]);
    return;
  }
  if (!isNode(node)) return;
  for (const child of Object.values(node)) allowEmptyLoops(child);
  if (node.type === 'For') rewriteFor(node);
}
