/**
 * The tools that ask servers, against real ones on loopback. Hunts keys that leak or go elsewhere, answers of broken servers
 * that are taken for observations, and pages that a policy may not read.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { WorkerServices } from '../../../../agents/tools/tool.ts';
import { toolboxOf } from '../../../../agents/tools/toolbox.ts';
import { askRetrievalServer } from '../../../../agents/retrieval/retrieval-server.ts';
import { checkLoaded } from '../../../../config/open-tasks.ts';
import { UserInputError } from '../../../../protocol/user-input-error.ts';
import { classOfError, FAILURES } from '../../../../protocol/failure-policy.ts';
import { searchResult } from '../../../../tasks/search/information.ts';
import { type LoopbackServer, startLoopback } from '../../../support/endpoint/http-server.ts';

const { signal } = new AbortController();
const KEY = 'secret-key-123';
let folder: string;
let server: LoopbackServer;
let origin: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-web-'));
  server = await startLoopback(() => ({ body: {} }));
  ({ origin } = new URL(server.baseUrl));
  const records = [
    { id: 'd1', title: 'Harbour', text: 'Built in 1902.' },
    { id: 'd2', title: 'Tower', text: 'Built in 1950. '.repeat(400) },
  ];
  writeFileSync(join(folder, 'corpus.jsonl'), records.map((one) => JSON.stringify(one)).join('\n'));
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  server.asked.length = 0;
  vi.stubEnv('LONGHAUL_HOME', join(folder, 'home'));
  vi.stubEnv('LONGHAUL_KEYS', `SEARCH_KEY@${origin}`);
  vi.stubEnv('SEARCH_KEY', KEY);
});
afterEach(() => vi.unstubAllEnvs());

async function call(
  name: string,
  options: Record<string, unknown>,
  args: Record<string, unknown>,
  more: Partial<WorkerServices> = {},
): Promise<string> {
  const tool = toolboxOf([{ name, options }]).get(name);
  const worker = { signal, deadline: Date.now() + 20_000, ...more } as WorkerServices;
  const answer = await tool?.run({ name, arguments: args }, undefined, { callId: 'c', timeoutMs: 20_000, worker });
  return answer?.content ?? '';
}

describe('local_search', () => {
  const corpus = () => join(folder, 'corpus.jsonl');

  it('shows passages as SkyRL-Agent does, or as JSON, bounded', async () => {
    expect(await call('local_search', { corpus: corpus() }, { query: 'harbour' })).toBe(
      'Doc 1(Title: Harbour) Built in 1902.',
    );
    const json = await call(
      'local_search',
      { corpus: corpus(), form: 'json', topk: 2, snippetCharacters: 30 },
      { query: 'built' },
    );
    expect(JSON.parse(json)).toMatchObject({
      num_results: 2,
      results: [
        { rank: 1, docid: 'd2' },
        { rank: 2, docid: 'd1', snippet: '"Harbour"\nBuilt in 1902.' },
      ],
    });
    expect(await call('local_search', { corpus: corpus() }, { query: 'zzz' })).toBe('No search results found.');
    const document = await call('get_document', { corpus: corpus() }, { docid: 'd1' });
    expect(document).toBe('Harbour\nBuilt in 1902.');
    expect(await call('get_document', { corpus: corpus() }, { docid: 'd7' })).toMatch(
      /^Error: docid "d7": there is no such/,
    );
  });

  it('asks a server in the form of SkyRL-Agent', async () => {
    server.handler = () => ({ body: { result: [[{ document: { id: '1', contents: '"Title"\nText' }, score: 2 }]] } });
    const options = { searchUrl: `${server.baseUrl}/retrieve`, topk: 1 };
    expect(await call('local_search', options, { query: 'q' })).toBe('Doc 1(Title: Title) Text');
    expect(server.asked[0]?.body).toEqual({ queries: ['q'], topk: 1, return_scores: true });
  });

  it('without a place to search, or with two, its options are refused', () => {
    expect(() => toolboxOf(['local_search'])).toThrow(/give corpus: a file or a folder of passages, or searchUrl/);
    const both = { name: 'local_search', options: { corpus: '/x', searchUrl: 'http://127.0.0.1:1/' } };
    expect(() => toolboxOf([both])).toThrow(/and not both/);
    expect(() => toolboxOf([{ name: 'local_search', options: { corpus: 'x' } }])).toThrow(/absolute path/);
  });
});

describe('a retrieval server', () => {
  const within = (waits: number[] = []) => ({
    signal,
    deadline: Number.POSITIVE_INFINITY,
    wait: (ms: number) => Promise.resolve(waits.push(ms)),
  });
  const ask = (waits?: number[]) =>
    askRetrievalServer(
      { url: `${server.baseUrl}/retrieve`, timeoutSeconds: 5, asks: 'query' },
      { query: 'q', topk: 1 },
      within(waits),
    );
  const settings = () => ({
    searchUrl: `${server.baseUrl}/retrieve`,
    topk: 1,
    timeoutSeconds: 5,
    k1: 1.2,
    b: 0.75,
    maxMiB: 1,
    whenDown: 'hold' as const,
  });

  it('that stays down is the failure service-unavailable, which holds a rollout', async () => {
    server.handler = () => ({ status: 503, body: {} });
    const waits: number[] = [];
    await expect(ask(waits)).rejects.toMatchObject({ name: 'ServiceUnavailable', kind: 'server' });
    expect(waits).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9].map((s) => s * 1000));
    await expect(searchResult(settings(), 'q', within())).rejects.toMatchObject({ name: 'ServiceUnavailable' });
    expect(FAILURES[classOfError('ServiceUnavailable')]).toMatchObject({ recovery: 'hold' });
  });

  it('that cuts connections is tried again; one that refuses the query is not, and the policy is told', async () => {
    let cuts = 2;
    server.handler = () => ((cuts -= 1) < 0 ? { body: { result: [] } } : null);
    expect(await ask()).toEqual({ result: [] });
    server.asked.length = 0;
    server.handler = () => ({ status: 422, body: {} });
    expect(await searchResult(settings(), 'q', within())).toMatch(/Search error: .*422/);
    expect(server.asked).toHaveLength(1);
    server.handler = () => ({ status: 404, body: {} });
    await expect(searchResult(settings(), 'q', within())).rejects.toMatchObject({ kind: 'client' });
    server.handler = () => ({ body: { result: [[{ nodoc: 1 }]] } });
    await expect(searchResult(settings(), 'q', within())).rejects.toMatchObject({ kind: 'answer' });
  });

  it('at the address of a metadata service is refused, and so is one that the operator has not listed', async () => {
    const at = (url: string) =>
      askRetrievalServer({ url, timeoutSeconds: 5, asks: 'query' }, { query: 'q', topk: 1 }, within());
    await expect(at('http://169.254.169.254/retrieve')).rejects.toThrow(/never allowed/);
    vi.stubEnv('LONGHAUL_ENDPOINTS', 'https://other.example');
    vi.stubEnv('LONGHAUL_KEYS', '');
    await expect(ask()).rejects.toThrow(/add it to LONGHAUL_ENDPOINTS/);
    expect(server.asked).toEqual([]);
  });
});

describe('search_engine', () => {
  const options = () => ({ url: `${origin}/search`, keyEnv: 'SEARCH_KEY' });
  const organic = [
    { title: 'One', link: 'https://one.example/a', snippet: 'first' },
    { title: 'Two', link: 'https://sub.blocked.example/b', snippet: 'second' },
    { title: 'Three', link: 'https://three.example', snippet: 'has the Leaked word' },
  ];

  it('asks Serper with its key, and leaves out what is blocked', async () => {
    server.handler = () => ({ body: { organic } });
    const blocked = { blockedDomains: ['blocked.example'], blockedWords: ['leaked'] };
    const text = await call('search_engine', { ...options(), ...blocked }, { query: ['a', 'b'] });
    expect(text).toMatch(
      /Results for "a":\n1. One\n {3}https:\/\/one.example\/a\n {3}first\n=======\nResults for "b":/,
    );
    expect(text).not.toMatch(/Two|Three/);
    expect(server.asked.map(({ body }) => body['q'])).toEqual(['a -site:blocked.example', 'b -site:blocked.example']);
    expect(server.asked[0]?.headers['x-api-key']).toBe(KEY);
  });

  it('asks You.com', async () => {
    server.handler = () => ({
      body: { results: { web: [{ title: 'T', url: 'https://t.example', snippets: ['s'] }] } },
    });
    const text = await call('search_engine', { ...options(), provider: 'youcom' }, { query: ['a b'] });
    expect(text).toMatch(/1. T\n {3}https:\/\/t.example\n {3}s/);
    expect(server.asked[0]?.path).toBe('/search?query=a+b&count=10');
  });

  it('without a key for the address it is refused before a run, with the variable and the command', async () => {
    vi.stubEnv('LONGHAUL_KEYS', 'SEARCH_KEY@https://other.example');
    const tool = toolboxOf([{ name: 'search_engine', options: options() }]).get('search_engine');
    expect(() => tool?.check('tools.search_engine.options')).toThrow(/LONGHAUL_KEYS=SEARCH_KEY@http:\/\/127/);
    const task = {
      messages: [{ role: 'user', content: 'find' }],
      tools: [{ name: 'search_engine', options: options() }],
      grade: () => Promise.resolve({ code: 'graded' as const, reward: 0, passed: false, reason: '' }),
    } as const;
    expect(() => checkLoaded('web-train-0', task)).toThrow(UserInputError);
    await expect(call('search_engine', options(), { query: ['a'] })).rejects.toMatchObject({ kind: 'key' });
    expect(server.asked).toEqual([]);
  });

  it('a server that is down, or refuses the key, is a failure that does not show the key', async () => {
    server.handler = () => ({ status: 401, body: { message: KEY } });
    await expect(call('search_engine', options(), { query: ['a'] })).rejects.toMatchObject({
      name: 'ServiceUnavailable',
      message: expect.not.stringContaining(KEY) as unknown,
    });
    server.handler = () => ({ status: 503, headers: { 'retry-after': '3600' }, body: {} });
    await expect(call('search_engine', options(), { query: ['a'] })).rejects.toMatchObject({
      kind: 'server',
      retryAfterMs: 3_600_000,
    });
  });
});

describe('web_browser', () => {
  const html = { 'content-type': 'text/html' };
  const page = `<html><head><title>T</title></head><body><p>${'Filler words. '.repeat(60)}</p><p>The harbour opened in 1902.</p></body></html>`;
  const allow = () => ({ allowPrivate: [new URL(origin).host] });

  it('shows what fits the goal, reads a page once, and says why a page cannot be read', async () => {
    server.handler = ({ path }) => (path === '/v1/none' ? { status: 404, body: '' } : { headers: html, body: page });
    const url = `${server.baseUrl}/a`;
    expect(await call('web_browser', allow(), { url, goal: 'harbour' })).toMatch(
      /^Title: T\nURL: .*The harbour opened in 1902/s,
    );
    await call('web_browser', allow(), { url, goal: 'filler' });
    expect(server.asked).toHaveLength(1);
    const several = await call('web_browser', allow(), {
      url: JSON.stringify([url, `${server.baseUrl}/none`]),
      goal: 'harbour',
    });
    expect(several).toMatch(/1902.*\n=======\nError: .*none: its server answers with status 404\./s);
    // Not from the cache of somebody who was allowed.
    expect(await call('web_browser', {}, { url, goal: 'harbour' })).toMatch(/^Error: .*(public internet|port)/);
  });

  it('a judge reads it in parts, and blocked pages are not read', async () => {
    server.handler = () => ({ headers: html, body: `<p>${'word '.repeat(8000)}</p>` });
    const asked: string[] = [];
    const ask = (question: unknown) => {
      asked.push(JSON.stringify(question));
      return Promise.resolve(
        asked.length === 1 ? '{"rational": "r", "evidence": "It opened.", "summary": "s"}' : '{"evidence": ""}',
      );
    };
    const url = `${server.baseUrl}/long`;
    const text = await call('web_browser', { ...allow(), judge: 'reader' }, { url, goal: 'when' }, { ask });
    expect(text).toMatch(/Evidence: It opened\.\nSummary: s$/);
    expect(asked).toHaveLength(3);
    const blocked = await call('web_browser', { ...allow(), blockedDomains: ['127.0.0.1'] }, { url, goal: 'when' });
    expect(blocked).toMatch(/it is blocked/);
  });
});
