/** Values of the generated code as Python writes them. */

import type { Value } from './draft.ts';

/** Both a literal and what `repr` prints. */
export function pythonRepr(value: Value): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value)) return `[${value.join(', ')}]`;
  return `{${Object.entries(value)
    .map(([key, item]) => `'${key}': ${item}`)
    .join(', ')}}`;
}
