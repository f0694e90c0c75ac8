/** What is wrong with a setting that may be one of several kinds: told of the kind that was clearly meant, where one was. */

import type { z } from 'zod';

type Issue = z.core.$ZodIssue;

const isOfOtherType = (issues: readonly Issue[]): boolean =>
  issues.some(({ code, path }) => code === 'invalid_type' && path.length === 0);

/** The issue itself where it is of no union, or where no kind has the fewest things wrong. */
export function innermost(issue: Issue): Issue {
  if (issue.code !== 'invalid_union') return issue;
  const kinds = issue.errors.filter((issues) => !isOfOtherType(issues));
  const fewest = Math.min(...kinds.map((issues) => issues.length));
  const [meant, ...others] = kinds.filter((issues) => issues.length === fewest);
  const found = meant?.[0];
  return found === undefined || others.length > 0
    ? issue
    : innermost({ ...found, path: [...issue.path, ...found.path] });
}
