/** Hunts settings of judges and budgets that are ignored, and a key that is shown. */
import { expect, it } from 'vitest';
import { checkDeclaredJudges } from '../../config/judges-schema.ts';
import { resolveRunConfig } from '../../config/run-config.ts';
import { resolveSweepConfig } from '../../config/sweep-config.ts';

const endpoint = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm' };
const priced = { ...endpoint, pricePerMillionTokens: { prompt: 1, sampled: 2 } };
const run = (over: object) => resolveRunConfig({ policy: { base: '/p' }, task: { name: 't' }, ...over }, '/here');
const sweep = (over: object) => resolveSweepConfig({ policies: ['oracle'], tasks: { name: 't' }, ...over }, '/here');

it('defaults are filled in, and judges are asked by chat', () => {
  const judges = { strict: { endpoint, sampling: { maxTokens: 7 }, budget: { tokens: 5 } } };
  for (const { judges: found } of [run({ judges }), sweep({ judges })])
    expect(found).toMatchObject({
      strict: {
        endpoint: { ...endpoint, mode: 'chat', timeoutSeconds: 120, maxTries: 5 },
        sampling: { temperature: 0, topP: 1, maxTokens: 7 },
        budget: { tokens: 5 },
      },
    });
  expect(run({ budget: { tokens: 5, hours: 2 } }).budget).toEqual({ tokens: 5, hours: 2 });
  expect(run({ judges: { a: { endpoint, budget: { hours: 0.5 } } } }).judges?.['a']?.budget).toEqual({ hours: 0.5 });
  expect(sweep({ judges: { a: { endpoint: priced } }, budget: { usd: 2 } }).budget).toEqual({ usd: 2 });
});

it.each([
  [{ judges: { 'a.b': { endpoint } } }, 'judges', 'letters, digits, dash and underscore'],
  [{ judges: { a: {} } }, 'judges.a.endpoint', 'give { baseUrl, model }'],
  [{ judges: { a: { endpoint: { ...endpoint, mode: 'tokens' } } } }, 'judges.a.endpoint.mode', 'asked by chat'],
  [{ judges: { a: { endpoint, retries: 3 } } }, 'judges.a.retries', 'endpoint, sampling and budget'],
  [{ judges: { a: { endpoint, sampling: { topK: 3 } } } }, 'judges.a.sampling.topK', 'temperature, topP, maxTokens'],
  [{ judges: { a: { endpoint, budget: { tokens: 0 } } } }, 'judges.a.budget.tokens', 'at least 1'],
  [{ judges: { a: { endpoint, budget: { usd: 3 } } } }, 'judges.a.budget.usd', 'pricePerMillionTokens'],
  [{ judges: { a: { endpoint, budget: { hours: 0 } } } }, 'judges.a.budget.hours', 'a number of hours above 0'],
  [{ judges: { a: { endpoint, budget: { minutes: 9 } } } }, 'judges.a.budget.minutes', 'tokens, usd, hours'],
  [
    { judges: { a: { endpoint: { ...endpoint, pricePerMillionTokens: { prompt: 1 } } } } },
    'pricePerMillionTokens',
    'US dollars',
  ],
  [{ budget: { usd: 3 } }, 'budget.usd', 'no model of this configuration has a price'],
  [{ budget: { token: 3 } }, 'budget.token', 'budget.tokens'],
  [{ judges: { a: { endpoint: { ...endpoint, apiKey: 'sk-secret' } } } }, 'judges.a.endpoint.apiKey', 'apiKeyEnv'],
])('%j is refused', (over, field, remedy) => {
  for (const resolve of [run, sweep]) {
    let message = '';
    try {
      resolve(over);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain(field);
    expect(message).toContain(remedy);
    expect(message).not.toContain('sk-secret');
  }
});

it.each([
  ['qa_judged', {}, 'judge'],
  ['rlm', { model: 'helper' }, 'helper'],
  ['rlm', { model: 'judge', grader: 'judge' }, 'judge'],
  ['memory', { grader: 'judge' }, 'judge'],
])('a judge that %s asks with the options %j must be configured', (environment, options, missing) => {
  const asking = [{ environment, options: { data: { train: 'a.jsonl' }, ...options } }];
  const check = (judges: Record<string, unknown> | undefined) => () => checkDeclaredJudges(asking, judges, undefined);
  expect(check(undefined)).toThrow(`give judges: { ${missing}: { endpoint`);
  expect(check({ other: {} })).toThrow(`the environment ${environment} asks it`);
  expect(check({ [missing]: {} })).not.toThrow();
});

it('a judge that no option names need not be configured', () => {
  const asking = ['rlm', 'memory'].map((environment) => ({ environment, options: { data: { train: 'a.jsonl' } } }));
  expect(() => checkDeclaredJudges(asking, undefined, undefined)).not.toThrow();
});
