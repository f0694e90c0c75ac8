/**
 * Loops over a variable that is not there run no time, as in Python's Jinja, where the library throws: templates write
 * `for call in message.tool_calls` for messages that have none.
 */

import { identifier, isNode, list, type Node } from './nodes.ts';

/** `operand | default([])`. */
const orNothing = (operand: unknown): Node => ({
  type: 'FilterExpression',
  operand,
  filter: { type: 'CallExpression', callee: identifier('default'), args: [list()] },
});

export function allowEmptyLoops(node: Node): Node {
  if (node.type !== 'For') return node;
  const { iterable } = node;
  if (isNode(iterable) && iterable.type === 'SelectExpression') iterable['lhs'] = orNothing(iterable['lhs']);
  else node['iterable'] = orNothing(iterable);
  return node;
}
