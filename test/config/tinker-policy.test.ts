/** Hunts policies of Tinker servers that are named by other URIs than were given, or by none at all. */

import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resolveRunConfig } from '../../config/run-config.ts';
import { parseTinkerUri, type TinkerPolicy, tinkerUri } from '../../protocol/tinker-uri.ts';
import { namedInInput } from '../../workers/allowed/named-in-input.ts';

const starter = path.resolve(import.meta.dirname, '../../examples/starter');
const server = { baseUrl: 'https://host.example/', apiKeyEnv: 'TINKER_API_KEY', tokenizer: starter };
const resolved = (policy: object) =>
  resolveRunConfig({ policy: { backend: 'tinker', ...policy }, task: { name: 'swe-mini' } }, '/tmp').policy;

describe('policy.server', () => {
  test('becomes a URI with the server, the model, the tokenizer and the name of the key', () => {
    const { base, ...others } = resolved({ base: 'Qwen/Qwen3-8B', server });
    expect(others).toEqual({ backend: 'tinker' });
    expect(parseTinkerUri(base)).toEqual({
      baseUrl: 'https://host.example',
      model: 'Qwen/Qwen3-8B',
      tokenizer: `file://${starter}`,
      apiKeyEnv: 'TINKER_API_KEY',
    });
    expect(resolved({ base }).base).toBe(base);
  });

  test('a checkpoint names its base model', () => {
    const base = 'tinker://run:train:1/weights/step-1';
    expect(() => resolved({ base, server })).toThrow(/policy\.server\.model is missing/);
    expect(parseTinkerUri(resolved({ base, server: { ...server, model: 'm' } }).base)).toMatchObject({ model: 'm', path: base });
  });

  test.each([
    [{ base: 'm' }, /policy\.server is missing/],
    [{ base: 'm', server: { baseUrl: 'https://host' } }, /policy\.server\.tokenizer is missing/],
    [{ base: 'm', server: { ...server, apiKeyEnv: 'tml-abc' } }, /policy\.server\.apiKeyEnv/],
    [{ base: 'm', server: { ...server, baseUrl: 'ftp://host' } }, /policy\.server\.baseUrl/],
    [{ base: 'tinker://run/other/x', server }, /policy\.base/],
    [{ base: 'm', backend: 'embedded', server }, /policy\.server/],
  ])('%o is refused', (policy, message) => {
    expect(() => resolved(policy)).toThrow(message);
  });

  test('the folder of its tokenizer is checked before it is read', () => {
    const uri = resolved({ base: 'm', server }).base;
    const folder = { path: starter, kind: 'files' };
    expect(namedInInput('openRun', [{ policy: { base: uri, backend: 'tinker' } }, 'r'])).toContainEqual({
      field: 'policy.base',
      ...folder,
    });
    expect(namedInInput('generate', [{ policy: { uri } }])).toContainEqual({ field: 'policy.uri', ...folder });
  });
});

test('a URI is read as it was written', () => {
  const text = fc.string({ minLength: 1 });
  const policy = fc.record<TinkerPolicy>(
    {
      baseUrl: fc.constantFrom('https://host.example', 'http://127.0.0.1:8000/below', 'https://[::1]:1/a%20b'),
      model: text,
      tokenizer: text,
      apiKeyEnv: fc.constantFrom('A', 'TINKER_API_KEY'),
      reduction: fc.constantFrom('sum', 'sequence-mean'),
      path: fc.constantFrom('tinker://a:train:1/weights/b', 'tinker://m_1/sampler_weights/x-2'),
    },
    { requiredKeys: ['baseUrl', 'model', 'tokenizer'] },
  );
  fc.assert(
    fc.property(policy, (one) => {
      expect(parseTinkerUri(tinkerUri(one))).toEqual(one);
    }),
    { numRuns: 50 },
  );
});
