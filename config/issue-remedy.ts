/** The remedy, in words, for a setting's value that a schema refuses. */

import type { z } from 'zod';

type Issue = z.core.$ZodIssue;

const NOUNS: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping of settings',
  record: 'a mapping of settings',
};

const units: Readonly<Record<string, (bound: string) => string>> = {
  string: (bound) => `a text of ${bound} characters`,
  array: (bound) => `a list of ${bound}`,
};

function bounded(
  { origin, inclusive = true }: { readonly origin: string; readonly inclusive?: boolean },
  bound: number | bigint,
  side: 'least' | 'most',
): string {
  const words = inclusive ? `at ${side} ${bound}` : `${side === 'least' ? 'more' : 'less'} than ${bound}`;
  return units[origin]?.(words) ?? words;
}

/** The first names of a mapping's settings. */
function ofSettings(names: readonly string[]): string {
  if (names.length === 0) return '';
  return `: ${names.slice(0, 6).join(', ')}${names.length > 6 ? ', …' : ''}`;
}

/** The schema's own message if it has one, else a remedy by kind. `settings`: the names allowed in a mapping there. */
export function remedyOf(issue: Issue, settings: readonly string[] = []): string {
  if (!/^(Invalid input|Invalid option|Too small|Too big)\b/u.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return (
        'give ' + `${NOUNS[issue.expected] ?? issue.expected}${issue.expected === 'object' ? ofSettings(settings) : ''}`
      );
    case 'too_small':
      return `give ${bounded(issue, issue.minimum, 'least')}`;
    case 'too_big':
      return `give ${bounded(issue, issue.maximum, 'most')}`;
    case 'invalid_value':
      return `give ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`;
    default:
      return issue.message;
  }
}
