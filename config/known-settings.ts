/** The names of a schema's settings: to find what a misspelt one means, and where it belongs. */

import type { z } from 'zod';
import { closest } from '../protocol/closest.ts';

interface Definition {
  readonly type: string;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly element?: z.ZodType;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
}

const definitionOf = (schema: z.ZodType): Definition => schema._zod.def as unknown as Definition;

/** The object shapes that a value of this schema may have, through defaults, transformations and unions. */
function objectsOf(schema: z.ZodType): Array<Readonly<Record<string, z.ZodType>>> {
  const { shape, innerType, in: from, options = [] } = definitionOf(schema);
  if (shape !== undefined) return [shape];
  return [innerType, from, ...options].filter((one) => one !== undefined).flatMap(objectsOf);
}

function elementsOf(schema: z.ZodType): z.ZodType[] {
  const { element, innerType, in: from, options = [] } = definitionOf(schema);
  if (element !== undefined) return [element];
  return [innerType, from, ...options].filter((one) => one !== undefined).flatMap(elementsOf);
}

/** The schemas of the value at `path`. */
function at(schema: z.ZodType, path: readonly PropertyKey[]): z.ZodType[] {
  const [key, ...rest] = path;
  if (key === undefined) return [schema];
  const below =
    typeof key === 'number' ? elementsOf(schema) : objectsOf(schema).flatMap((shape) => shape[String(key)] ?? []);
  return below.flatMap((one) => at(one, rest));
}

/** The names of the settings at `path`, if it is a mapping. */
export function settingsAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  return at(schema, path)
    .flatMap(objectsOf)
    .flatMap((shape) => Object.keys(shape));
}

/** Dotted paths of all settings below. For a list, those of its first element. */
function pathsBelow(schema: z.ZodType, prefix = ''): string[] {
  const named = objectsOf(schema).flatMap((shape) =>
    Object.entries(shape).flatMap(([name, one]) => [`${prefix}${name}`, ...pathsBelow(one, `${prefix}${name}.`)]),
  );
  return [...named, ...elementsOf(schema).flatMap((one) => pathsBelow(one, `${prefix}0.`))];
}

/** The dotted name that `name`, unknown at `path`, probably means: a similar name there, or the same name elsewhere. */
export function meantSetting(schema: z.ZodType, path: readonly PropertyKey[], name: string): string | undefined {
  const near = closest(name, settingsAt(schema, path));
  if (near !== undefined) return [...path, near].join('.');
  const elsewhere = new Set(pathsBelow(schema).filter((one) => one.split('.').at(-1) === name));
  return elsewhere.size === 1 ? [...elsewhere][0] : undefined;
}
