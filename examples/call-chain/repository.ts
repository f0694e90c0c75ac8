/**
 * Generated Python repositories of 40 to 200 files with one bug, three calls away from its symptom. A repository is a
 * function of its split and number alone.
 */

import { type Draw, draws } from '../support/draw.ts';

/** `down`: the bug is in what the symptom calls. `up`: it is in what calls the symptom. */
export type Direction = 'down' | 'up';

export interface Definition {
  readonly name: string;
  /** Number of its file. */
  readonly file: number;
  /** First of its three lines, from 1. */
  readonly line: number;
  /** The function that it calls, and the number that it adds. */
  readonly calls?: string;
  readonly adds?: number;
  /** What its docstring says of it. */
  readonly doc: string;
}

export interface Problem {
  readonly direction: Direction;
  readonly definitions: readonly Definition[];
  /** From the symptom to the bug: four functions in four files. */
  readonly chain: readonly Definition[];
  readonly bug: Definition;
  /** What the bug must add. */
  readonly right: number;
}

export const CALLS = 3;
const FUNCTIONS = 2;
const NUMBERS = { from: 100, count: 400 } as const;
/** Three lines and an empty one. */
const LINES = 4;

export const pathOf = (file: number): string => `lib/m${String(file).padStart(3, '0')}.py`;

/** Some of `NUMBERS`, none twice. A small policy must know each of them: few are soon learned. */
function numbers(draw: Draw, count: number): number[] {
  const all = Array.from({ length: NUMBERS.count }, (_, i) => NUMBERS.from + i);
  for (let i = 0; i < count; i += 1) {
    const j = draw.integer(i, all.length - 1);
    [all[i], all[j]] = [all[j] ?? 0, all[i] ?? 0];
  }
  return all.slice(0, count);
}

/** The call and the sum of a definition's last line. */
function bodyOf({ calls, adds }: Pick<Definition, 'calls' | 'adds'>): string {
  const value = adds === undefined ? 'x' : `x + ${adds}`;
  return calls === undefined ? value : `${calls}(${value})`;
}

/** The three lines of a definition. */
export const linesOf = (one: Definition): readonly string[] => [
  `def ${one.name}(x):`,
  `    """${one.doc}"""`,
  `    return ${bodyOf(one)}`,
];

function fillers(draw: Draw, names: readonly string[], sums: readonly number[]): Definition[] {
  return names.map((name, i) => {
    const place = { name, file: Math.floor(i / FUNCTIONS), line: 1 + LINES * (i % FUNCTIONS) };
    const sum = sums[i] ?? 0;
    // Only later functions are called: no call returns to where it came from.
    const called = i + 1 < names.length ? names[draw.integer(i + 1, names.length - 1)] : undefined;
    const seen = draw.chance(0.3) ? `; see ${names[draw.integer(0, names.length - 1)] ?? ''}` : '';
    if (called !== undefined && draw.chance(0.5)) return { ...place, calls: called, doc: `Passes x on${seen}.` };
    return { ...place, adds: sum, doc: `Adds ${sum}${seen}.` };
  });
}

/** Positions of `CALLS + 1` definitions in as many files. */
function positions(draw: Draw, files: number): number[] {
  const chosen: number[] = [];
  while (chosen.length <= CALLS) {
    const at = draw.integer(0, files * FUNCTIONS - 1);
    if (chosen.every((one) => Math.floor(one / FUNCTIONS) !== Math.floor(at / FUNCTIONS))) chosen.push(at);
  }
  return chosen;
}

/** Problem `n` of a split. */
export function problemOf(split: string, n: number): Problem {
  const draw = draws(`call-chain ${split} ${n}`);
  const direction: Direction = n % 2 === 0 ? 'down' : 'up';
  const files = draw.integer(40, 200);
  const count = files * FUNCTIONS;
  const names = numbers(draw, count).map((number) => `f_${number}`);
  const sums = numbers(draw, count);
  const [right = 0, wrong = 0] = numbers(draw, 2);
  const at = positions(draw, files);
  const all = fillers(draw, names, sums);
  const onChain = new Set(at.map((position) => names[position]));
  // Nobody but the chain calls a function of the chain, so that there is one way to go.
  const free = names.filter((name) => !onChain.has(name));
  for (const [i, one] of all.entries())
    if (one.calls !== undefined && onChain.has(one.calls))
      all[i] = { ...one, calls: free[i % free.length] ?? one.calls };
  const place = (position: number): Pick<Definition, 'name' | 'file' | 'line'> => {
    const { name = '', file = 0, line = 1 } = all[position] ?? {};
    return { name, file, line };
  };
  const nameAt = (i: number): string => names[at[i] ?? 0] ?? '';
  // `at` goes from caller to callee. The bug is at its end that is away from the symptom.
  for (const [i, position] of at.entries()) {
    const calls = i < CALLS ? { calls: nameAt(i + 1) } : {};
    const isBug = i === (direction === 'down' ? CALLS : 0);
    const own = isBug ? { adds: wrong, doc: `Adds ${right}.` } : { doc: 'Passes x on.' };
    all[position] = { ...place(position), ...calls, ...own };
  }
  const down = at.flatMap((position) => all[position] ?? []);
  const chain = direction === 'down' ? down : down.toReversed();
  const bug = chain[CALLS];
  if (bug === undefined) throw new Error('the chain is too short');
  return { direction, definitions: all, chain, bug, right };
}

/** The text of a file, imports last: modules may import each other. */
export function textOf({ definitions }: Problem, file: number): string {
  const own = definitions.filter((one) => one.file === file);
  const blocks = own.map((one) => `${linesOf(one).join('\n')}\n`);
  return `${blocks.join('\n')}\n${importsOf(definitions, own).join('\n')}\n`;
}

function importsOf(definitions: readonly Definition[], own: readonly Definition[]): string[] {
  const names = own.flatMap(({ calls }) => calls ?? []);
  const others = definitions.filter(({ name, file }) => names.includes(name) && file !== own[0]?.file);
  return others.map(({ name, file }) => `from .m${String(file).padStart(3, '0')} import ${name}`).toSorted();
}

export function filesOf(problem: Problem): Array<{ readonly path: string; readonly content: string }> {
  const count = 1 + Math.max(...problem.definitions.map(({ file }) => file));
  return Array.from({ length: count }, (_, file) => ({ path: pathOf(file), content: textOf(problem, file) }));
}

/** The file with the bug, repaired. */
export function repaired(problem: Problem): string {
  const definitions = problem.definitions.map((one) =>
    one.name === problem.bug.name ? { ...one, adds: problem.right } : one,
  );
  return textOf({ ...problem, definitions }, problem.bug.file);
}
