/**
 * Checks values against any JSON Schema (draft 2020-12), by ajv. What a schema makes ajv do is bounded: a schema whose
 * check could take time without a limit is not compiled. Ajv is loaded with the first schema that needs it.
 */

import { createRequire } from 'node:module';
import type { Ajv2020, ErrorObject } from 'ajv/dist/2020.js';

export type JsonSchema = Readonly<Record<string, unknown>>;

/** A schema of named arguments. */
export type ObjectSchema = JsonSchema & { readonly type: 'object' };

/** A value that does not fit its schema. */
export interface Misfit {
  /** Names and indices from the outermost value to the wrong one. */
  readonly path: readonly string[];
  readonly value: unknown;
  /** What is expected, as a sentence without its subject: `must be a text.` */
  readonly remedy: string;
}

/** Checks all arguments together. Returns the first misfit. */
export type SchemaCheck = (value: unknown) => Misfit | undefined;

/**
 * Nested values that a check may visit, with every reference followed: no schema takes longer than the value is long.
 */
const MAX_NODES = 2000;
const MAX_DEPTH = 64;

/** Keywords with a schema, a list of schemas, or schemas by name. */
const ONE = ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'];
const ALSO_ONE = ['unevaluatedItems', 'unevaluatedProperties', 'additionalItems'];
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const NAMED = ['properties', 'dependentSchemas'];
/** They could name schemas that are not found by a path. */
const OTHER_NAMES = ['$id', '$anchor', '$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor'];

export const isSchema = (value: unknown): value is JsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Why a schema is not checked. */
class Unchecked extends Error {}

function resolved(root: JsonSchema, ref: unknown): unknown {
  if (typeof ref !== 'string' || (ref !== '#' && !ref.startsWith('#/')))
    throw new Unchecked(`$ref ${shownRef(ref)} is not a path inside of the schema`);
  let at: unknown = root;
  for (const part of ref.split('/').slice(1)) {
    const name = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    at = (Array.isArray(at) || isSchema(at)) && Object.hasOwn(at, name) ? (at as JsonSchema)[name] : undefined;
  }
  if (at === undefined) throw new Unchecked(`$ref ${shownRef(ref)} leads nowhere`);
  return at;
}

const shownRef = (ref: unknown): string => (JSON.stringify(ref) ?? String(ref)).slice(0, 80);

/** Counts the schemas that a check may visit. Errors: `Unchecked`. */
class Walk {
  #nodes = 0;
  readonly #root: JsonSchema;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  visit(schema: unknown, depth = 0): void {
    if (typeof schema === 'boolean' || schema === undefined) return;
    if (!isSchema(schema)) throw new Unchecked(`${shownRef(schema)} is not a schema`);
    this.#nodes += 1;
    if (this.#nodes > MAX_NODES || depth > MAX_DEPTH)
      throw new Unchecked('it refers to itself, or has too many parts for a check of limited time');
    if (schema['pattern'] !== undefined || schema['patternProperties'] !== undefined)
      throw new Unchecked('it has a regular expression (pattern), which may take time without a limit');
    for (const name of OTHER_NAMES) if (schema[name] !== undefined) throw new Unchecked(`it has ${name}`);
    if (schema['$ref'] !== undefined) this.visit(resolved(this.#root, schema['$ref']), depth + 1);
    for (const name of [...ONE, ...ALSO_ONE]) this.visit(schema[name], depth + 1);
    for (const name of LISTS) for (const one of this.#listOf(schema[name])) this.visit(one, depth + 1);
    for (const name of NAMED) for (const one of Object.values(schema[name] ?? {})) this.visit(one, depth + 1);
  }

  #listOf(given: unknown): readonly unknown[] {
    if (given === undefined) return [];
    if (!Array.isArray(given)) throw new Unchecked(`${shownRef(given)} is not a list of schemas`);
    return given;
  }
}

let loaded: Ajv2020 | undefined;

/** It takes a third of a second to load, so workers whose tools have simple parameters do not. */
function ajv(): Ajv2020 {
  const load = createRequire(import.meta.url);
  loaded ??= new (load('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')).Ajv2020({
    strict: false,
    logger: false,
    ownProperties: true,
    validateFormats: false,
    verbose: true,
    addUsedSchema: false,
  });
  return loaded;
}

/** By the schema's text: the same tool of an MCP server is listed for every rollout. The oldest is dropped first. */
const compiled = new Map<string, SchemaCheck | string>();
const MOST_COMPILED = 256;

/** The check of a schema; or a text, which says why the schema cannot be used for checks. */
export function compileSchema(schema: ObjectSchema): SchemaCheck | string {
  const text = JSON.stringify(schema);
  const known = compiled.get(text);
  if (known !== undefined) return known;
  const check = compileNew(schema);
  const [oldest] = compiled.keys();
  if (compiled.size >= MOST_COMPILED && oldest !== undefined) compiled.delete(oldest);
  compiled.set(text, check);
  return check;
}

function compileNew(schema: ObjectSchema): SchemaCheck | string {
  // Schemas of other drafts name theirs here; their common keywords mean the same.
  const { $schema: _draft, $id: _id, ...plain } = schema;
  try {
    new Walk(plain).visit(plain);
    const validate = ajv().compile(plain);
    // Ajv would keep it for as long as the process lives.
    ajv().removeSchema(plain);
    return (value) => (validate(value) ? undefined : misfitOf(validate.errors ?? [], value));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The sentence about a whole combination is more useful than that about its last alternative. */
function misfitOf(errors: readonly ErrorObject[], value: unknown): Misfit {
  const error = errors.findLast(({ keyword }) => keyword !== 'if') ?? errors.at(-1);
  if (error === undefined) return { path: [], value, remedy: 'does not fit its schema.' };
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const { params, data } = error;
  const missing = (params as { readonly missingProperty?: string }).missingProperty;
  if (missing !== undefined) return { path, value: data, remedy: `needs ${missing}.` };
  const further = params as { readonly additionalProperty?: string; readonly unevaluatedProperty?: string };
  const unknown = further.additionalProperty ?? further.unevaluatedProperty;
  if (unknown === undefined) return { path, value: data, remedy: remedyOf(error) };
  const known = Object.keys((error.parentSchema?.['properties'] as object | undefined) ?? {});
  const remedy = `is not known; known are ${known.join(', ') || 'no names'}.`;
  return { path: [...path, unknown], value: (data as JsonSchema)[unknown], remedy };
}

const LIMITS: Readonly<Record<string, string>> = {
  minimum: 'must be at least',
  maximum: 'must be at most',
  exclusiveMinimum: 'must be more than',
  exclusiveMaximum: 'must be less than',
  multipleOf: 'must be a multiple of',
};
const SIZES: Readonly<Record<string, readonly [string, string]>> = {
  minLength: ['at least', 'characters'],
  maxLength: ['at most', 'characters'],
  minItems: ['at least', 'items'],
  maxItems: ['at most', 'items'],
  minProperties: ['at least', 'members'],
  maxProperties: ['at most', 'members'],
};

function remedyOf({ keyword, schema, parentSchema, message }: ErrorObject): string {
  const limit = LIMITS[keyword];
  if (limit !== undefined) return `${limit} ${JSON.stringify(schema)}.`;
  const [least, things] = SIZES[keyword] ?? [];
  if (least !== undefined) return `must have ${least} ${JSON.stringify(schema)} ${things}.`;
  switch (keyword) {
    case 'type':
    case 'enum':
    case 'const':
    case 'anyOf':
    case 'oneOf':
      return `must be ${expectedBy(parentSchema ?? {})}.`;
    case 'uniqueItems':
      return 'must not have an item twice.';
    case 'false schema':
      return 'is not allowed.';
    default:
      return `${message ?? 'does not fit its schema'} (${JSON.stringify(schema).slice(0, 200)}).`;
  }
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  null: 'null',
};
const EXAMPLES: Readonly<Record<string, string>> = { string: '["a", "b"]', integer: '[1, 20]', number: '[0.5, 2]' };
const PLURALS: Readonly<Record<string, string>> = { string: 'texts', integer: 'whole numbers', number: 'numbers' };

const listed = (names: readonly string[]): string => [...new Set(names)].join(' or ');

/** What fits a schema, in words: `a list of texts, like ["a", "b"]`. */
export function expectedBy(schema: JsonSchema): string {
  const { type, enum: values, items } = schema;
  if (Array.isArray(values))
    return `one of ${values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(', ')}`;
  if ('const' in schema) return JSON.stringify(schema['const']);
  const forms = schema['anyOf'] ?? schema['oneOf'];
  if (Array.isArray(forms)) return listed(forms.map((form) => expectedBy(isSchema(form) ? form : {})));
  if (Array.isArray(type)) return listed(type.map((one) => expectedBy({ ...schema, type: one as unknown })));
  if (type === 'array') {
    const item = isSchema(items) && typeof items['type'] === 'string' ? items['type'] : '';
    return PLURALS[item] === undefined ? 'a list' : `a list of ${PLURALS[item]}, like ${EXAMPLES[item]}`;
  }
  if (type === 'object') {
    const names = Object.keys((schema['properties'] as object | undefined) ?? {});
    return names.length === 0 ? 'an object' : `an object with ${names.join(', ')}`;
  }
  return TYPES[String(type)] ?? `what ${JSON.stringify(schema).slice(0, 120)} allows`;
}
