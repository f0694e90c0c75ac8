/**
 * Hunts failures of an endpoint that are blamed on the wrong side, retried for nothing, or found only when rollouts run.
 * Over real HTTP; the server's protocol is a loopback stand-in.
 */
import type { ApplicationFailure } from '@temporalio/common';
import { describe, expect, it } from 'vitest';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { EndpointUnavailable } from '../../activities/failures.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checkEndpoint } from '../../activities/generate/endpoint-offer.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { type Handler } from '../support/endpoint/http-server.ts';
import { useEndpoint } from './endpoint-turns.ts';

const { signal, world, serving, engineServer, ids, recordOf } = useEndpoint();

describe('a failure', () => {
  const error =
    (status: number, code: string, headers = {}): Handler =>
    () => ({ status, headers, body: { error: { message: 'says the server', code } } });

  it.each([
    ['the key', error(401, ''), 'policy.endpoint.apiKeyEnv'],
    ['the account', error(429, 'insufficient_quota'), 'policy.endpoint.apiKeyEnv'],
    ['the model', error(404, 'model_not_found'), 'policy.endpoint.model'],
    ['a setting', error(400, ''), 'policy.endpoint'],
  ])('that %s is the cause of names the setting and what to do', async (_, handler, field) => {
    const { generate } = await serving(handler, { mode: 'chat' });
    const failed = await generate(1).catch((reason: unknown) => reason);
    expect(failed).toBeInstanceOf(UserInputError);
    expect(failed).toMatchObject({ field, remedy: expect.stringContaining('says the server') as string });
  });

  it('that is transient is left to a later attempt, at the time that the server names', async () => {
    const { generate } = await serving(error(429, '', { 'retry-after': '120' }), { mode: 'chat' });
    const failed = await generate(1).catch((reason: unknown) => reason);
    expect(failed).toBeInstanceOf(EndpointUnavailable);
    expect(failed).toMatchObject({ retryAfterMs: 120_000 });
    expect(await recordOf(1)).toBeUndefined();
  });

  it.each([
    ['longer than the pauses between attempts', 120_000, 120_000],
    ['shorter', 2000, undefined],
    ['of no length', undefined, undefined],
  ])('that asks for a wait %s reaches Temporal so', async (_, asked, nextRetryDelay) => {
    const failed = await withFailureMapping(() => Promise.reject(new EndpointUnavailable('busy', asked))).catch(
      (reason: unknown) => reason as ApplicationFailure,
    );
    expect([failed.type, failed.nonRetryable, failed.nextRetryDelay]).toEqual([
      'EndpointUnavailable',
      false,
      nextRetryDelay,
    ]);
  });

  it('to name another endpoint for a rollout that has started is reported', async () => {
    const { handler } = engineServer({ owner: 'somebody' });
    const { generate, policy } = await serving(handler, { mode: 'auto' });
    await generate(1);
    const other = { ...policy, endpoint: { ...policy.endpoint, model: 'another' } };
    await expect(generate(1, { policy: other })).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policy',
      value: 'another',
    });
  });
});

describe('an endpoint that is checked before anything is made for it', () => {
  const refusing =
    (status: number): Handler =>
    ({ path }) =>
      path.endsWith('/models')
        ? { body: { data: [{ id: 'm', owned_by: 'somebody' }] } }
        : { status, body: { error: { message: 'no: sk-known-to-nobody' } } };
  const check = async (
    handler: Handler,
    settings: object = {},
    env: NodeJS.ProcessEnv = { KEY: 'sk-known-to-nobody' },
  ) => {
    const { policy, server: asked } = await serving(handler, { apiKeyEnv: 'KEY', mode: 'auto', ...settings });
    const deps = {
      ...world.now.deps,
      endpoints: new EndpointClient({ LONGHAUL_KEYS: `KEY@${policy.endpoint.baseUrl}`, ...env }),
    };
    const { endpoint } = policy;
    const refused = await checkEndpoint({ run: 'r', endpoint, field: 'policies.p.endpoint' }, deps, signal).then(
      () => undefined,
      (error: unknown) => error as UserInputError,
    );
    return { refused, asked: asked.asked.map(({ path }) => path) };
  };

  it.each([401, 403, 402])(
    'whose key is refused with %i is refused by the name of the variable, whether it lists its models or not',
    async (status) => {
      const { refused } = await check(refusing(status));
      expect(refused).toMatchObject({ name: 'UserInputError', field: 'policies.p.endpoint.apiKeyEnv', value: 'KEY' });
      expect(refused?.message).not.toContain('sk-');
    },
  );

  it('whose variable is not set is refused, and receives no request', async () => {
    const { refused, asked } = await check(refusing(200), {}, {});
    expect(refused).toMatchObject({ field: 'policies.p.endpoint.apiKeyEnv', value: 'KEY' });
    expect(asked).toEqual([]);
  });

  it.each([
    ['down', 503],
    ['of the opinion that one token is too few', 400],
    ['busy', 429],
  ])('that is %s passes, after one request', async (_why, status) => {
    const { refused, asked } = await check(refusing(status));
    expect(refused).toBeUndefined();
    expect(asked).toEqual(['/v1/models', '/v1/chat/completions']);
  });

  it('that cannot list its models, as `transformers serve` without a hub cache, is refused for a model that it has not', async () => {
    const pinned: Handler = ({ path }) =>
      path.endsWith('/models')
        ? { status: 500, body: {} }
        : { status: 400, body: { detail: "Server is pinned to 'examples/starter'; requested 'm'." } };
    expect((await check(pinned, { mode: 'chat' })).refused).toMatchObject({
      field: 'policies.p.endpoint.model',
      value: 'm',
    });
  });

  it('that gives no ids although ids are required is refused', async () => {
    const { refused } = await check(refusing(404), ids);
    expect(refused).toMatchObject({ name: 'UserInputError', field: 'policies.p.endpoint' });
  });

  it('that answers under any name is refused if it does not list the requested one', async () => {
    const names: Handler = ({ path }) =>
      path.endsWith('/models')
        ? { body: { data: [{ id: 'file.gguf', aliases: ['other'], owned_by: 'llamacpp' }] } }
        : { body: {} };
    expect((await check(names)).refused).toMatchObject({
      field: 'policies.p.endpoint.model',
      value: 'm',
      remedy: expect.stringContaining('other') as string,
    });
    expect((await check(names, { model: 'other' })).refused).toBeUndefined();
  });
});

it('an answer that its own server cannot read is a mistake of the policy, which gets a hint, and the rollout continues', async () => {
  const { generate } = await serving(
    () => ({
      status: 500,
      body: {
        error: {
          code: 500,
          message: 'The model produced output that does not match the expected peg-native format',
          type: 'server_error',
        },
      },
    }),
    { mode: 'chat' },
  );
  expect(await generate(1)).toMatchObject({ kind: 'reply', calls: 0 });
  expect(await recordOf(1)).toMatchObject({
    end: 'stop',
    parsed: { kind: 'malformed' },
    command: { do: 'reply', message: expect.stringContaining('did not understand') as string },
    chat: { turn: { content: '', toolCalls: [] } },
  });
});
