/** Finds the name of a setting that the user gave in another spelling, such as SkyRL's. */

import type { z } from 'zod';

/** Settings that have another place in SkyRL. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  max_parallel_agents: 'dispatcher.maxParallelAgents',
  max_eval_parallel_agents: 'dispatcher.maxEvalParallelAgents',
};

/** Settings that had another name before 0.2.0. */
const RENAMED: Readonly<Record<string, string>> = { 'breaker.inARow': 'breaker.maxConsecutiveFailures' };

const camel = (name: string): string => name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** `tree` with the field at `path` under another name. */
function renamed(tree: unknown, path: readonly PropertyKey[], from: string, to: string): unknown {
  if (typeof tree !== 'object' || tree === null) return tree;
  const [key, ...rest] = path;
  if (key === undefined)
    return Object.fromEntries(
      Object.entries(tree).map(([name, value]) => [name === from ? to : name, value as unknown]),
    );
  if (Array.isArray(tree)) return tree.map((value: unknown, i) => (i === key ? renamed(value, rest, from, to) : value));
  return Object.fromEntries(
    Object.entries(tree).map(([name, value]) => [
      name,
      name === key ? renamed(value, rest, from, to) : (value as unknown),
    ]),
  );
}

/** The dotted name of the setting that `name`, unknown at `path`, means. `undefined` if there is none. */
export function rightName(
  schema: z.ZodType,
  given: unknown,
  path: readonly PropertyKey[],
  name: string,
): string | undefined {
  const dotted = [...path, name].join('.');
  if (Object.hasOwn(RENAMED, dotted)) return RENAMED[dotted];
  const to = camel(name);
  if (to === name) return undefined;
  const issues = schema.safeParse(renamed(given, path, name, to)).error?.issues.map(innermost) ?? [];
  const isUnknown = issues.some(
    (issue) => issue.code === 'unrecognized_keys' && issue.path.join('.') === path.join('.') && issue.keys.includes(to),
  );
  if (isUnknown) return Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  return [...path, to].join('.');
}

type Issue = z.core.$ZodIssue;

/** True if the value has another type than this kind of a union. */
const isOfOtherType = (issues: readonly Issue[]): boolean =>
  issues.some(({ code, path }) => code === 'invalid_type' && path.length === 0);

/**
 * For an issue with a union: the issue of the kind that was clearly meant, which is the one with the fewest issues. The
 * issue itself if it has no union, or if several kinds have the fewest.
 */
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
