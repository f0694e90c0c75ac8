/**
 * Hunts arguments that reach a tool with another type or content than the policy wrote, errors that do not say what to
 * write instead, and schemas whose check would hang a worker.
 */
import { describe, expect, it } from 'vitest';
import { ArgumentReader, readArguments } from '../../../../agents/tools/schema/arguments.ts';
import { checkTool } from '../../../../agents/tools/schema/check-tool.ts';
import { ownFrame } from '../../../../modules/own-frame.ts';
import type { JsonSchema, ObjectSchema } from '../../../../agents/tools/schema/json-schema.ts';

const read = (parameters: Record<string, JsonSchema>, given: Record<string, unknown>, required: string[] = []) =>
  readArguments('find', parameters, required, given).all();
const whole = (schema: ObjectSchema, given: Record<string, unknown>) =>
  new ArgumentReader('find', schema).read(given).all();

/** The file and line that a report of its error names. */
function placeOf(throwing: () => unknown): string | undefined {
  try {
    throwing();
    return undefined;
  } catch (error) {
    return ownFrame(error);
  }
}

const query = { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 3 };
const filters = {
  type: 'array',
  items: {
    type: 'object',
    properties: { field: { enum: ['year', 'author'] }, value: { type: ['string', 'integer'] } },
    required: ['field'],
    additionalProperties: false,
  },
};
const place = {
  oneOf: [
    { type: 'string' },
    { type: 'object', properties: { lat: { type: 'number' }, lon: { type: 'number' } }, required: ['lat', 'lon'] },
  ],
};

describe('arguments of any JSON Schema', () => {
  it.each<[string, Record<string, JsonSchema>, unknown, unknown]>([
    ['a list of texts', { x: query }, ['a', 'b'], ['a', 'b']],
    ['a list of texts as JSON text', { x: query }, ' ["a", "B"] ', ['a', 'B']],
    ['nested objects as JSON text', { x: filters }, '[{"field": "year", "value": 7}]', [{ field: 'year', value: 7 }]],
    ['a text that one alternative takes', { x: place }, '{"lat": 1}', '{"lat": 1}'],
    ['an object that the other takes', { x: place }, { lat: 1, lon: 2 }, { lat: 1, lon: 2 }],
    ['a text that looks like JSON, where a text is expected', { x: { type: 'string', minLength: 1 } }, '[1]', '[1]'],
    ['a number as text, with bounds', { x: { type: 'integer', minimum: 1 } }, '3', 3],
    ['a truth value in the policy’s own case', { x: { type: 'boolean', default: false } }, 'True', true],
    ['null where it is allowed', { x: { type: ['string', 'null'] } }, null, null],
    ['anything', { x: {} }, { a: [1] }, { a: [1] }],
  ])('%s', (_, parameters, given, expected) => {
    expect(read(parameters, { x: given })).toEqual({ x: expected });
  });

  it('null is an argument that was not given, unless it is allowed', () => {
    expect(read({ x: query, y: { type: 'string' } }, { x: null, y: null })).toEqual({});
    expect(() => read({ x: query }, { x: null }, ['x'])).toThrow('find needs the parameter x.');
  });

  it.each<[JsonSchema, unknown, string]>([
    [query, 'one', 'x "one": must be a list of texts, like ["a", "b"].'],
    [query, ['a', 5], 'x[1] 5: must be a text.'],
    [query, [], 'x []: must have at least 1 items.'],
    [query, ['a', 'b', 'c', 'd'], 'x ["a","b","c","d"]: must have at most 3 items.'],
    [filters, [{ value: 'a' }], 'x[0] {"value":"a"}: needs field.'],
    [filters, [{ field: 'day' }], 'x[0].field "day": must be one of year, author.'],
    [filters, [{ field: 'year', value: null }], 'x[0].value null: must be a text or a whole number.'],
    [filters, [{ field: 'year', of: 1 }], 'x[0].of 1: is not known; known are field, value.'],
    [place, { lat: 1 }, 'x {"lat":1}: must be a text or an object with lat, lon.'],
    [{ type: 'integer', minimum: 1, maximum: 9 }, '12', 'x 12: must be at most 9.'],
    [{ type: 'integer', minimum: 1 }, 'soon', 'x "soon": must be a whole number.'],
    [{ type: 'string', maxLength: 3 }, 'long', 'x "long": must have at most 3 characters.'],
    [{ type: 'array', uniqueItems: true }, [1, 1], 'x [1,1]: must not have an item twice.'],
    [{ const: 'yes' }, 'no', 'x "no": must be "yes".'],
  ])('%j is told of %j', (schema, given, message) => {
    expect(() => read({ x: schema }, { x: given })).toThrow(message);
  });

  it('of a whole schema may depend on each other, and be further ones', () => {
    const schema: ObjectSchema = {
      type: 'object',
      $schema: 'http://json-schema.org/draft-07/schema#',
      properties: { point: { $ref: '#/$defs/point' }, name: { type: 'string' }, near: { type: 'number' } },
      $defs: { point: { type: 'array', items: { type: 'number' }, minItems: 2 } },
      required: ['name'],
      dependentRequired: { near: ['point'] },
    };
    expect(whole(schema, { name: 'a', near: '2', point: '[1, 2]', more: 1 })).toEqual({
      name: 'a',
      near: 2,
      point: [1, 2],
      more: 1,
    });
    expect(() => whole(schema, { name: 'a', near: 2 })).toThrow('find needs point.');
    expect(() => whole(schema, { name: 'a', point: [1] })).toThrow('point [1]: must have at least 2 items.');
    expect(() => whole(schema, {})).toThrow('find needs the parameter name.');
  });

  it('that a tool reads without having defined them are its own error, and not its policy’s', () => {
    const given = readArguments('find', { path: { type: 'string' } }, ['path'], { path: 'a' });
    const said = 'find reads the parameter paht, which it does not define; it has path';
    for (const misread of [
      () => given.text('paht'),
      () => given.integer('paht'),
      () => given.flag('paht'),
      () => given.texts('paht'),
      () => given.wrong('paht', 'must be a file.'),
    ]) {
      expect(misread).toThrow(new TypeError(said));
      expect(placeOf(misread)).toMatch(/arguments\.test\.ts:\d+$/);
    }
    const open = new ArgumentReader('find', { type: 'object', properties: { path: { type: 'string' } } });
    expect(open.read({ path: 'a' }).value('paht')).toBeUndefined();
  });

  it('that are named like members of every object are not found there', () => {
    expect(() => read({ constructor: query }, {}, ['constructor'])).toThrow('find needs the parameter constructor.');
    expect(() => read({ x: filters }, JSON.parse('{"__proto__": 1}') as Record<string, unknown>)).toThrow(
      '__proto__ 1: find has no such parameter; it has x.',
    );
  });
});

/** Each branch refers twice to the next one: thirty lines of schema, a thousand million visits. */
const doubling = Object.fromEntries(
  Array.from({ length: 30 }, (_, i) => [
    `d${i}`,
    i === 29 ? { type: 'string' } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
  ]),
);

describe('schemas whose check may take time without a limit', () => {
  const schemas: Array<[string, ObjectSchema, RegExp]> = [
    ['a regular expression', { type: 'object', properties: { x: { type: 'string', pattern: '^(a+)+$' } } }, /pattern/],
    [
      'a regular expression in an alternative',
      { type: 'object', properties: { x: { anyOf: [{ items: { pattern: '^(a+)+$' } }] } } },
      /pattern/,
    ],
    ['a schema within itself', { type: 'object', properties: { x: { $ref: '#' } } }, /refers to itself/],
    [
      'references that multiply',
      { type: 'object', properties: { x: { $ref: '#/$defs/d0' } }, $defs: doubling },
      /too many parts/,
    ],
    ['a reference elsewhere', { type: 'object', properties: { x: { $ref: 'http://a.b/c' } } }, /not a path inside/],
    ['a reference to nothing', { type: 'object', properties: { x: { $ref: '#/$defs/no' } } }, /leads nowhere/],
    ['no schema', { type: 'object', properties: { x: { type: 'float' } } }, /schema is invalid/],
  ];

  it.each(schemas)(
    '%s is not used for checks, and what it asks is not found out by running it',
    (_, schema, reason) => {
      const reader = new ArgumentReader('find', schema);
      expect(reader.unchecked).toMatch(reason);
      expect(reader.read({ x: `${'a'.repeat(40)}!` }).value('x')).toBe(`${'a'.repeat(40)}!`);
    },
  );

  it.each(schemas)('%s is refused when a tool is defined', (_, parameters, reason) => {
    const define = () => {
      checkTool({ name: 'find', description: 'Finds.', parameters, run: async () => await Promise.resolve('') });
    };
    expect(define).toThrow(/defineTool "find": parameters is/);
    expect(define).toThrow(reason);
  });

  it('a value of many levels is refused before it is compared', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    expect(() => read({ x: { type: 'array', uniqueItems: true } }, { x: deep })).toThrow(
      'x: must not be nested deeper than 200 levels.',
    );
    expect(() => read({ x: {} }, { x: JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`) as unknown })).toThrow(
      'x: must not be nested deeper than 200 levels.',
    );
  });
});
