/** Hunts policies that are accepted although they cannot be used, and keys that are printed in a message. */
import { describe, expect, it } from 'vitest';
import { resolveRollout } from '../../../workflows/rollout/resolve-rollout.ts';
import { resolvePolicy } from '../../../workflows/rollout/resolve-policy.ts';

const refused: string[] = [];
const resolve = (given: unknown) => {
  refused.length = 0;
  try {
    return resolvePolicy(given, (field, value, remedy) => {
      refused.push(field, JSON.stringify(value), remedy);
      throw new Error('refused');
    });
  } catch {
    return refused;
  }
};
const endpoint = (over: object) => ({ endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm', ...over } });

describe('a policy', () => {
  it('of a directory is unchanged', () => {
    expect(resolve({ uri: 'file:///p', version: 4 })).toEqual({ uri: 'file:///p', version: 4 });
    expect(resolve({ uri: 'file:///p' })).toEqual({ uri: 'file:///p', version: 0 });
  });

  it('of an endpoint needs an address and a model, and gets the rest', () => {
    expect(resolve(endpoint({}))).toEqual({
      endpoint: {
        baseUrl: 'http://127.0.0.1:8000/v1',
        model: 'm',
        mode: 'auto',
        timeoutSeconds: 600,
        maxConcurrent: 32,
        maxTries: 5,
        patienceSeconds: 3600,
        maxTokensField: 'max_tokens',
      },
      version: 0,
    });
  });

  it.each(['auto', 'tokens', 'chat'])(
    'that is resolved already stays as it is: a batch passes on its own policy (%s)',
    (mode) => {
      const once = resolve({ ...endpoint({ mode, ...(mode === 'tokens' ? { tokenizer: '/m' } : {}) }), version: 3 });
      expect(once).toMatchObject({ endpoint: { mode, maxTokensField: 'max_tokens' } });
      expect(resolve(once)).toEqual(once);
    },
  );

  it('with a misspelt setting is told the right one, and a harmless value is shown', () => {
    expect(resolve(endpoint({ timeoutSecond: 60 }))).toEqual([
      'policy.endpoint.timeoutSecond',
      '60',
      'remove it, there is no such setting; did you mean timeoutSeconds?',
    ]);
    expect(resolve(endpoint({ tokensPerMinut: 9 }))).toContain('9');
    expect(resolve(endpoint({ key: 12345 }))).toContain('"(not shown)"');
    expect(resolve(endpoint({ colour: 'sk-secret' }))).toContain('"(not shown)"');
  });

  it.each([
    ['nothing', undefined, 'policy'],
    ['a text', 'starter', 'policy'],
    ['a version that is none', { uri: 'file:///p', version: -1 }, 'policy.version'],
    ['no model', { endpoint: { baseUrl: 'http://x' } }, 'policy.endpoint.model'],
    ['no address', { endpoint: { model: 'm' } }, 'policy.endpoint.baseUrl'],
    ['an address without its scheme', endpoint({ baseUrl: '127.0.0.1:8000' }), 'policy.endpoint.baseUrl'],
    ['a mode that there is not', endpoint({ mode: 'text' }), 'policy.endpoint.mode'],
    ['ids without a tokenizer', endpoint({ mode: 'tokens' }), 'policy.endpoint.tokenizer'],
    ['a tokenizer by a relative path', endpoint({ tokenizer: 'models/m' }), 'policy.endpoint.tokenizer'],
    ['a tokenizer that chat would not read', endpoint({ mode: 'chat', tokenizer: '/m' }), 'policy.endpoint.tokenizer'],
    ['fields of chat that ids would not send', endpoint({ extraBody: { a: 1 } }), 'policy.endpoint.extraBody'],
    ['no requests at all', endpoint({ requestsPerMinute: 0 }), 'policy.endpoint.requestsPerMinute'],
    [
      'a patience that no timer can hold',
      endpoint({ timeoutSeconds: 2_600_000, patienceSeconds: 3_000_000 }),
      'policy.endpoint.timeoutSeconds',
    ],
    ['a setting that there is not', endpoint({ retries: 3 }), 'policy.endpoint.retries'],
  ])('with %s is refused by the name of the field', (_, given, field) => {
    expect(resolve(given)).toEqual([field, expect.any(String), expect.stringMatching(/./)]);
  });

  it.each([
    ['in a field of its own', endpoint({ apiKey: 'sk-secret' })],
    ['where its name belongs', endpoint({ apiKeyEnv: 'sk-secret' })],
    ['in the address', endpoint({ baseUrl: 'https://user:sk-secret@host/v1' })],
    ['in the query of the address', endpoint({ baseUrl: 'https://host/v1?key=sk-secret' })],
    ['that looks like a name', endpoint({ apiKeyEnv: 'hf_secretAbCdEfGhIjKlMnOp' })],
    ['in further fields that chat alone would send', endpoint({ extraBody: { key: 'sk-secret' } })],
  ])('with a key %s is refused without printing it', (_, given) => {
    const told = resolve(given);
    expect(told).toBe(refused);
    expect(refused.join(' ')).not.toContain('secret');
  });
});

describe("a rollout's input", () => {
  it('takes an endpoint from any Temporal client, and refuses a wrong one before any work', () => {
    const task = 'swe-mini-train-0';
    expect(resolveRollout({ task, policy: endpoint({ mode: 'chat' }) }, 'id').policy).toMatchObject({
      endpoint: { mode: 'chat' },
      version: 0,
    });
    const wrong = () => resolveRollout({ task, policy: endpoint({ mode: 'nonsense' as 'chat' }) }, 'id');
    expect(wrong).toThrow(/^policy.endpoint.mode: "nonsense" cannot be used; give tokens, chat, auto$/);
  });
});
