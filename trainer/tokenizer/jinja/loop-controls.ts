/**
 * Makes `continue` and `break` keep the output of their iteration, as in Python's Jinja; the library drops it. The
 * statements after them are put under a condition instead.
 */

import { identifier, isNode, type Node } from './nodes.ts';

/** Variables in a loop's scope; a nested loop has its own. */
const LEFT = '__round_is_left';
const OVER = '__loop_is_over';

const set = (name: string, value: boolean): Node => ({
  type: 'Set',
  assignee: identifier(name),
  value: identifier(String(value)),
  body: [],
});
const unless = (name: string, body: unknown[]): Node => ({
  type: 'If',
  test: { type: 'UnaryExpression', operator: { value: 'not', type: 'UnaryOperator' }, argument: identifier(name) },
  body,
  alternate: [],
});

interface Guarded {
  readonly body: unknown[];
  /** True if it may leave the iteration. */
  readonly leaves: boolean;
}

function guardedIf(node: Node): Guarded {
  const [body, alternate] = [guarded(node['body']), guarded(node['alternate'])];
  return {
    body: [Object.assign(node, { body: body.body, alternate: alternate.body })],
    leaves: body.leaves || alternate.leaves,
  };
}

function guardedOne(node: unknown): Guarded {
  if (!isNode(node)) return { body: [node], leaves: false };
  if (node.type === 'Continue') return { body: [set(LEFT, true)], leaves: true };
  if (node.type === 'Break') return { body: [set(LEFT, true), set(OVER, true)], leaves: true };
  return node.type === 'If' ? guardedIf(node) : { body: [node], leaves: false };
}

function guarded(statements: unknown): Guarded {
  if (!Array.isArray(statements)) return { body: [], leaves: false };
  const body: unknown[] = [];
  for (const [i, statement] of statements.entries()) {
    const one = guardedOne(statement);
    body.push(...one.body);
    if (!one.leaves) continue;
    const rest = guarded(statements.slice(i + 1));
    return { body: rest.body.length > 0 ? [...body, unless(LEFT, rest.body)] : body, leaves: true };
  }
  return { body, leaves: false };
}

/**
 * The loop with conditions instead of `continue` and `break`; for `rewrite`. A loop with an `else` is not changed: the
 * `else` runs if no iteration came to its end, in Jinja too.
 */
export function keepWhatLoopsPrinted(node: Node): Node {
  const { defaultBlock } = node;
  if (node.type !== 'For' || (Array.isArray(defaultBlock) && defaultBlock.length > 0)) return node;
  const { body, leaves } = guarded(node['body']);
  if (leaves) node['body'] = [unless(OVER, [set(LEFT, false), ...body])];
  return node;
}
