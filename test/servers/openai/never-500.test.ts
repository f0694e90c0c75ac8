/**
 * Hunts requests that the server mistakes for its own failure: whatever a caller sends, the status is below 500, and a
 * refusal has OpenAI's shape. Over real HTTP, with the starter policy in the embedded engine, since a caller's numbers
 * may break its arithmetic. Not asserted: which refusal it is, unless a test names it.
 */
import fc from 'fast-check';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { ApiServer } from '../../../servers/openai/api-server.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

const starter = join(packageRoot, 'examples', 'starter');
const CONTEXT = 96;
let engine: EmbeddedEngine;
let server: ApiServer;
const failures: unknown[] = [];
beforeAll(async () => {
  engine = await createEmbeddedEngine();
  const tokenizer = await loadTokenizer(starter);
  server = await ApiServer.start({
    model: { name: 'starter', engine, policy: { dir: starter, version: 0 }, tokenizer, contextTokens: CONTEXT },
    host: '127.0.0.1',
    port: 0,
    onFailure: (error) => failures.push(error),
  });
});
afterAll(async () => {
  await server?.close(0);
  await engine?.close();
});

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array;
}

/** Does not use `fetch`, which corrects paths and methods. */
function ask({ method, path, headers = {}, body }: Asked): Promise<{ status: number; text: string }> {
  const { port } = new URL(server.baseUrl);
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    sent.on('error', reject).end(body);
  });
}

const post = (path: string, body: string | Uint8Array, type = 'application/json') =>
  ask({ method: 'POST', path, body, headers: { 'content-type': type } });

async function expectNoFailure(answer: Promise<{ status: number; text: string }>): Promise<void> {
  const { status, text } = await answer;
  expect({ status, text, failures: failures.splice(0) }).toMatchObject({
    status: expect.toSatisfy((code: number) => code >= 200 && code < 500) as number,
    failures: [],
  });
  // In a stream, too.
  expect(text).not.toContain('server_error');
  if (status >= 400 && text !== '')
    expect(JSON.parse(text)).toMatchObject({
      error: { message: expect.stringMatching(/./u) as string, type: expect.stringMatching(/_error$/u) as string },
    });
}

/** JSON, including texts that JavaScript's values cannot represent. */
const oddJson = fc.oneof(
  fc.json({ maxDepth: 4 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.constantFrom('1e999', '-1e999', '1e-300', '-0', '-0.0', '5e-324', '9007199254740993', `1${'0'.repeat(400)}`),
  fc.constantFrom('null', 'true', 'false', '""', '[]', '{}', '[[]]', '[null]', '"\\ud800"', '"\\udfff\\u0000"'),
  fc.constantFrom(
    '{"__proto__": {"toString": 1}}',
    '{"1": 1, "0": 2}',
    '[1, "a", null]',
    '[[1], "a"]',
    '[-1]',
    '[1e9]',
  ),
  fc.integer({ min: 1, max: 198 }).map((depth) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`),
  fc.integer({ min: 1, max: 5000 }).map((depth) => `${'['.repeat(depth)}${']'.repeat(depth)}`),
);
/** Mostly allowed values, so that requests reach the engine. */
const field = (...valid: string[]) => fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...valid) }, oddJson);

const common = {
  max_tokens: field('1', '3', '2.0', '1e15'),
  temperature: field('0', '1', '1e-300', '1e-30', '10'),
  top_p: field('1', '0.5', '5e-324'),
  top_k: field('0', '-1', '3', '9007199254740991'),
  min_p: field('0', '1', '1e-300'),
  repetition_penalty: field('1', '10', '0.01', '1e-300'),
  n: field('1', '2', '64'),
  seed: field('1', '-5', '9007199254740991'),
  stop: field('"a"', '["b", "\\ud800"]', '""'),
  stop_token_ids: field('[1]', '[9007199254740991]'),
  stream: field('true', 'false'),
  stream_options: field('{"include_usage": true}', 'null'),
  skip_special_tokens: field('true', 'false'),
  return_token_ids: field('true'),
  return_tokens_as_token_ids: field('true'),
  metadata: oddJson,
};
const completion = {
  ...common,
  prompt: field('"x"', '[1, 2]', '["a", "b"]', '[[1], [2]]', '[100000]', '"\\ud800"', '"<|endoftext|>"'),
  logprobs: field('0', '3', '20'),
};
const message = fc.oneof(
  fc.constantFrom(
    '{"role": "user", "content": "x"}',
    '{"role": "system", "content": [{"type": "text", "text": "\\udc00"}]}',
    '{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "t", "arguments": "{\\"n\\": 1e400}"}}]}',
    '{"role": "tool", "tool_call_id": "b", "content": null}',
  ),
  fc.record({ role: field('"user"', '"assistant"', '"tool"'), content: oddJson, tool_calls: oddJson }).map(written),
);
const tool = fc
  .tuple(field('"t"'), field('{"type": "object"}', '{"1": 2.0, "a": 1}'))
  .map(([name, schema]) => `{"type": "function", "function": {"name": ${name}, "parameters": ${schema}}}`);
const listOf = (one: fc.Arbitrary<string>) =>
  fc.oneof(
    { weight: 5, arbitrary: fc.array(one, { minLength: 1, maxLength: 3 }).map((all) => `[${all.join(',')}]`) },
    oddJson,
  );
const chat = {
  ...common,
  messages: listOf(message),
  tools: listOf(tool),
  tool_choice: field('"auto"', '"none"'),
  logprobs: field('true'),
  top_logprobs: field('0', '2'),
};

function written(fields: Record<string, string>): string {
  return `{${Object.entries(fields)
    .map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    .join(',')}}`;
}
/** A few fields at a time: of many odd fields, the first is refused and the others are never used. */
const bodyOf = (fields: Record<string, fc.Arbitrary<string>>, base: Record<string, string>) =>
  fc
    .uniqueArray(fc.constantFrom(...Object.entries(fields)), { selector: ([key]) => key, maxLength: 3 })
    .chain((some) => fc.record(Object.fromEntries(some)))
    .map((given) => written({ model: '"starter"', max_tokens: '4', ...base, ...given }));

it.each([
  ['/v1/completions', bodyOf(completion, { prompt: '"x"' })],
  ['/v1/chat/completions', bodyOf(chat, { messages: '[{"role": "user", "content": "x"}]' })],
])('fields of %s', async (path, body) => {
  await fc.assert(
    fc.asyncProperty(body, (text) => expectNoFailure(post(path, text))),
    { numRuns: 150 },
  );
});

it('bodies of any type that are not such a request', async () => {
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 40 }), oddJson);
  const type = fc.constantFrom(
    'application/json',
    'application/json; charset=utf-16',
    'text/plain',
    '',
    'a/b',
    '\u00ff',
  );
  await fc.assert(
    fc.asyncProperty(bytes, type, fc.boolean(), (body, of, isChat) =>
      expectNoFailure(post(isChat ? '/v1/chat/completions' : '/v1/completions', body, of)),
    ),
    { numRuns: 200 },
  );
});

it('methods and paths', async () => {
  const method = fc.constantFrom(
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'QUERY',
  );
  const part = fc.constantFrom(
    '/',
    '//',
    'v1',
    'models',
    'completions',
    'chat',
    '..',
    '%',
    '%00',
    '%ff',
    '?',
    ':',
    '*',
    '@',
  );
  const path = fc.oneof(
    fc.array(part, { maxLength: 6 }).map((parts) => `/${parts.join('')}`),
    fc.constantFrom('*', 'http://', 'http://[', 'http://evil.example/v1/models', '/v1/models/%E0%A4%A', '/v1/models/'),
  );
  await fc.assert(
    fc.asyncProperty(method, path, (by, at) => expectNoFailure(ask({ method: by, path: at }))),
    { numRuns: 300 },
  );
});

it.each(['', 'Host: ', 'Host: a b', 'Host: [', 'Host: evil.example', 'Host: localhost/x', 'Host: localhost@a'])(
  'a host like %j is refused',
  async (host) => {
    const { port } = new URL(server.baseUrl);
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.end(`GET /v1/models HTTP/1.0\r\n${host === '' ? '' : `${host}\r\n`}\r\n`),
      );
      let text = '';
      socket.on('data', (chunk) => (text += chunk.toString())).on('error', reject);
      socket.on('close', () => resolve(text));
    });
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /u);
    expect(failures).toEqual([]);
  },
);

it.each([1e-300, 0.009])(
  'a repetition penalty of %d, which the engine cannot divide by, is refused',
  async (penalty) => {
    const { status, text } = await post(
      '/v1/completions',
      JSON.stringify({ model: 'starter', prompt: 'x', max_tokens: 4, repetition_penalty: penalty }),
    );
    expect([status, JSON.parse(text)]).toMatchObject([400, { error: { param: 'repetition_penalty' } }]);
  },
);

it('a path of slashes is unknown', async () => {
  expect((await ask({ method: 'GET', path: '//' })).status).toBe(404);
});
