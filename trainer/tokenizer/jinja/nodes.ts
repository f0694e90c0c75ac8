/** Syntax trees of `@huggingface/jinja`, as far as they are rewritten here. */

export interface Node extends Record<string, unknown> {
  readonly type: string;
}

export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

export const identifier = (value: string): Node => ({ type: 'Identifier', value });
export const text = (value: string): Node => ({ type: 'StringLiteral', value });
export const list = (...value: unknown[]): Node => ({ type: 'ArrayLiteral', value });
export const call = (name: string, ...args: unknown[]): Node => ({
  type: 'CallExpression',
  callee: identifier(name),
  args,
});

/** Replaces each node by `change(node)`, the innermost first. Lists and maps are changed in place. */
export function rewrite(value: unknown, change: (node: Node) => Node): unknown {
  if (Array.isArray(value)) {
    for (const [i, child] of value.entries()) value[i] = rewrite(child, change);
    return value;
  }
  if (value instanceof Map) {
    const entries = [...value].map(([key, child]) => [rewrite(key, change), rewrite(child, change)] as const);
    value.clear();
    for (const [key, child] of entries) value.set(key, child);
    return value;
  }
  if (!isNode(value)) return value;
  for (const [key, child] of Object.entries(value)) {
    const now = rewrite(child, change);
    if (now !== child) value[key] = now;
  }
  return change(value);
}
