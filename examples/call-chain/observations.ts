/** What the tools answer in a generated repository, without a sandbox, to the character. */

import { type Definition, linesOf, pathOf, type Problem, textOf } from './repository.ts';

interface Line {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** The lines that name `name`, whole, by path. Few files do: only their texts are made. */
function naming({ definitions, ...problem }: Problem, name: string): Line[] {
  const whole = new RegExp(String.raw`\b${name}\b`, 'u');
  const files = new Set(
    definitions
      .filter((one) => one.name === name || one.calls === name || one.doc.includes(name))
      .map(({ file }) => file),
  );
  return [...files]
    .toSorted((a, b) => a - b)
    .flatMap((file) =>
      textOf({ ...problem, definitions }, file)
        .split('\n')
        .flatMap((text, i) => (whole.test(text) ? [{ path: pathOf(file), line: i + 1, text }] : [])),
    );
}

/** `search` for a text that holds `name` whole. */
export function searched(problem: Problem, name: string, query: string): string {
  return naming(problem, name)
    .filter(({ text }) => text.includes(query))
    .map(({ path, line, text }) => `${path}:${line}:${text}`)
    .join('\n');
}

/** `code_search` for definitions. */
export const defined = ({ name, file, line }: Definition): string =>
  `${pathOf(file)}:${line}-${line + 2}: function ${name}: def ${name}(x):`;

/** `code_search` for references. */
export function referenced(problem: Problem, name: string): string {
  return naming(problem, name)
    .filter(({ text }) => !text.includes('"""'))
    .map(({ path, line, text }) => {
      const around = problem.definitions.find(
        (one) => pathOf(one.file) === path && one.line <= line && line <= one.line + 2,
      );
      const place = around === undefined ? '' : around.name === name ? ' [definition]' : ` [in ${around.name}]`;
      return `${path}:${line}: ${text.trim()}${place}`;
    })
    .join('\n');
}

/** The editor's view of a definition. */
export const viewed = (one: Definition): string =>
  linesOf(one)
    .map((text, i) => `${one.line + i}\t${text}`)
    .join('\n');
