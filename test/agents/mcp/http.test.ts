/**
 * Hunts servers over HTTP that make a worker wait, read or send too much, that take over a session, send it elsewhere, or
 * get a key that is not theirs; and outages that look like answers. A real server on loopback.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { lookup } from 'node:dns';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkReach, checkServers, type McpHttpServer, type McpServers } from '../../../agents/mcp/server.ts';
import { listOverHttp, mcpTools } from '../../../agents/mcp/tools.ts';
import type { Tool, WorkerServices } from '../../../agents/tools/tool.ts';
import { classOfError, FAILURES } from '../../../protocol/failure-policy.ts';
import type { McpSession } from '../../../protocol/records.ts';
import { ServiceUnavailable } from '../../../agents/web/service-unavailable.ts';
import { type McpHttpTestServer, type McpServerOptions, startMcpServer, TOOLS } from '../../support/mcp-http-server.ts';

vi.mock('node:dns', { spy: true });

const KEY = 'secret-key-"123"';
const { signal } = new AbortController();
const servers: McpHttpTestServer[] = [];

beforeEach(() => {
  vi.stubEnv('LONGHAUL_KEYS', '');
  vi.stubEnv('LONGHAUL_ENDPOINTS', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(servers.splice(0).map((one) => one.close()));
});

async function serve(options: McpServerOptions = {}): Promise<McpHttpTestServer> {
  const server = await startMcpServer(options);
  servers.push(server);
  return server;
}

/** An attempt's tools, with its sessions in memory. */
async function opened(server: McpHttpTestServer, more: Partial<McpHttpServer> = {}) {
  const specs: McpServers = { far: { url: server.url, effect: 'none', ...more } };
  const { listing, sessions } = await listOverHttp(specs, signal);
  const recorded: McpSession[] = Object.values(sessions);
  const latest = () => {
    const last = recorded.at(-1);
    if (last === undefined) throw new Error('no session');
    return Promise.resolve({ ...last, number: recorded.length - 1 });
  };
  const follow = ({ number }: { readonly number: number }, session: McpSession) => {
    recorded[number + 1] ??= session;
    return latest();
  };
  const tools = new Map(mcpTools(specs, listing, () => ({ latest, follow })).map((one) => [nameOf(one), one]));
  const call = async (name: string, args: Record<string, unknown>, timeoutMs = 20_000) => {
    const worker = { signal, deadline: Date.now() + timeoutMs } as WorkerServices;
    const tool = tools.get(`far__${name}`);
    const { content } =
      (await tool?.run({ name, arguments: args }, undefined, { callId: 'c', timeoutMs, worker })) ?? {};
    return content;
  };
  return { tools, listing, recorded, call, does: (what: string, ms?: number) => call('do', { what }, ms) };
}
const nameOf = (tool: Tool): string => tool.schema.function.name;
const refused = (work: Promise<unknown>) =>
  work.then(
    () => expect.unreachable('it was not refused'),
    (error: unknown) => error as ServiceUnavailable,
  );

describe('a server over HTTP', () => {
  it.each(['json', 'events'] as const)('lists its tools and answers in the form %s', async (form) => {
    const server = await serve({ form });
    const { tools, call, does, recorded } = await opened(server);
    expect([...tools.keys()]).toEqual(['far__add', 'far__do']);
    expect([...tools.values()].map(({ runs, effect }) => [runs, effect])).toEqual([
      ['worker', 'none'],
      ['worker', 'none'],
    ]);
    expect([await call('add', { by: 2 }), await call('add', { by: '3' })]).toEqual(['total 2', 'total 5']);
    expect(await call('add', { by: 0 })).toBe('Error: by 0: must be at least 1.');
    expect(await does('greet')).toBe('naïve ✓');
    expect(await does('fail')).toBe('Error: it went wrong');
    expect(server.methods().slice(0, 3)).toEqual(['initialize', 'notifications/initialized', 'tools/list']);
    // Its own pings are answered; one session was begun, and nothing that a later answer says replaces it.
    expect(server.replies.every(({ result }) => JSON.stringify(result) === '{}')).toBe(true);
    expect(server.replies.length > 0).toBe(form === 'events');
    const calls = server.asked.filter(({ message }) => message['method'] === 'tools/call');
    expect(calls.map(({ headers }) => headers['mcp-session-id'])).toEqual(calls.map(() => recorded[0]?.id));
    expect(new Set(calls.map(({ message }) => message['id'])).size).toBe(calls.length);
  });

  it('may have no sessions', async () => {
    const server = await serve({ session: null });
    const { recorded, call } = await opened(server);
    expect(recorded).toEqual([{ revision: '2025-06-18' }]);
    expect(await call('add', { by: 2 })).toBe('total 2');
  });

  it('whose calls change something is never asked twice by default', async () => {
    const { tools } = await opened(await serve(), { effect: undefined } as object);
    expect([...tools.values()].map(({ effect }) => effect)).toEqual(['outside', 'outside']);
  });

  it('gets the key that the operator allows for it, which no answer shows', async () => {
    const server = await serve({ tools: [...TOOLS, { ...TOOLS[0], name: 'told', description: `say ${KEY}` }] });
    vi.stubEnv('LONGHAUL_KEYS', `MCP_KEY@http://127.0.0.1:${server.port}`);
    vi.stubEnv('MCP_KEY', KEY);
    const { does, listing } = await opened(server, { key: 'MCP_KEY' });
    expect(new Set(server.asked.map(({ headers }) => headers.authorization))).toEqual(new Set([`Bearer ${KEY}`]));
    expect(await does('key')).toBe('you sent Bearer [key MCP_KEY]');
    expect(JSON.stringify(listing)).not.toContain('secret-key');
    const other = await serve();
    const error = await refused(opened(other, { key: 'MCP_KEY' }));
    expect(error).toMatchObject({ name: 'ServiceUnavailable', kind: 'key', unsent: true });
    expect(error.message).toContain(`LONGHAUL_KEYS=MCP_KEY@http://127.0.0.1:${other.port}`);
    expect(other.asked).toEqual([]);
  });
});

describe('what a call may cost', () => {
  it('a huge answer, a nested one and a compressed one are cut off, and the policy is told', async () => {
    const server = await serve();
    const { does } = await opened(server);
    expect(await does('huge 100000')).toMatch(/^x{3000,5000}[^]*x{3000,5000}$/u);
    const cut = /^Error: the MCP server far \(.*\) answered the call with more than can be read \(4 MiB\)$/u;
    expect(await does('huge 5000000')).toMatch(cut);
    expect(await does('deep')).toMatch(cut);
    const bomb = gzipSync(Buffer.alloc(64 << 20, ' '));
    server.options = {
      instead: (_, message, response) => {
        if (message['method'] !== 'tools/call') return false;
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(bomb);
        return true;
      },
    };
    expect(await does('greet')).toMatch(cut);
  });

  it('a slow call of a server that lives is an observation; a server that is silent is not', async () => {
    const server = await serve();
    const { does } = await opened(server);
    expect(await does('wait', 3000)).toMatch(/^\[timed out after \d s\]$/u);
    expect(server.methods().slice(-2)).toEqual(['notifications/cancelled', 'ping']);
    const outside = await opened(server, { effect: 'outside' });
    expect(await outside.does('wait', 3000)).toMatch(
      /^\[timed out after \d s\]\n\[it may or may not have had its effect\]$/u,
    );
    server.options = { instead: (_, { method }) => method !== 'initialize' };
    expect(await refused(does('wait', 3000))).toMatchObject({ kind: 'timeout', unsent: false });
  });

  it.each<[string, RegExp, Array<Record<string, unknown>>, Partial<McpHttpServer>?]>([
    [
      'too many',
      /offers 65 tools, at most 64 .*mcp\.far\.tools$/u,
      Array.from({ length: 65 }, (_, i) => ({ ...TOOLS[0], name: `t${i}` })),
    ],
    ['a long description', /describes add by 40\d{3} characters/u, [{ ...TOOLS[0], description: 'x'.repeat(40_000) }]],
    [
      'long ones together',
      /describes its tools by \d+ characters/u,
      Array.from({ length: 10 }, (_, i) => ({ ...TOOLS[0], name: `t${i}`, description: 'x'.repeat(30_000) })),
    ],
    [
      'a pattern',
      /has add, whose arguments cannot be checked \(.*pattern/u,
      [{ name: 'add', inputSchema: { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } } }],
    ],
    [
      'a schema without an end',
      /whose arguments cannot be checked \(it refers to itself/u,
      [{ name: 'add', inputSchema: { type: 'object', properties: { a: { $ref: '#' } } } }],
    ],
    ['no name', /listed a tool without name or inputSchema/u, [{ inputSchema: {} }]],
    ['a missing one', /has no tool gone; it has add, do/u, [...TOOLS], { tools: ['gone'] }],
  ])('tools that a policy could not use are refused before a rollout: %s', async (_, message, tools, more) => {
    const error = await refused(opened(await serve({ tools }), more));
    expect(error).toMatchObject({ name: 'McpFailed', message: expect.stringMatching(message) as string });
    expect(FAILURES[classOfError('McpFailed')].recovery).toBe('mask');
  });

  it('what is not offered need not be usable', async () => {
    const bad = { name: 'bad', inputSchema: { type: 'object', properties: { a: { pattern: 'a' } } } };
    const { tools } = await opened(await serve({ tools: [bad, ...TOOLS] }), { tools: ['add'] });
    expect([...tools.keys()]).toEqual(['far__add']);
  });
});

describe('a session', () => {
  it('that the server has forgotten is begun anew, once', async () => {
    const server = await serve();
    const { call, recorded } = await opened(server);
    await call('add', { by: 2 });
    server.forget();
    expect(await call('add', { by: 3 })).toBe('total 3');
    expect(recorded).toHaveLength(2);
    server.options = {
      instead: (_, { method }, response) => {
        if (method === 'tools/call') response.writeHead(404).end();
        return method === 'tools/call';
      },
    };
    expect(await refused(call('add', { by: 3 }))).toMatchObject({
      name: 'ServiceUnavailable',
      message: expect.stringContaining('forgets a session as soon as it has begun') as string,
    });
  });

  it('may be refused with 400 by the transport of a server; what a call causes is no such refusal', async () => {
    const server = await serve();
    const { does, recorded } = await opened(server);
    const first = recorded[0]?.id;
    const says = (id: unknown, code: number) => ({
      instead: (request: IncomingMessage, { method }: Record<string, unknown>, response: ServerResponse) => {
        if (method !== 'tools/call' || request.headers['mcp-session-id'] !== first) return false;
        const error = { code, message: 'Bad Request: No valid session ID provided' };
        response.writeHead(400).end(JSON.stringify({ jsonrpc: '2.0', error, id }));
        return true;
      },
    });
    for (const [id, code] of [
      ['1', -32_000],
      [null, -32_602],
    ] as const) {
      server.options = says(id, code);
      expect(await does('greet')).toBe('Error: Bad Request: No valid session ID provided');
    }
    expect(recorded).toHaveLength(1);
    server.options = says(null, -32_000);
    expect(await does('greet')).toBe('naïve ✓');
    expect(recorded).toHaveLength(2);
  });

  it('of calls with effects is not begun anew: what it held is gone', async () => {
    const server = await serve();
    const { call } = await opened(server, { effect: 'outside' });
    server.forget();
    const before = server.asked.length;
    expect(await refused(call('add', { by: 3 }))).toMatchObject({ name: 'McpFailed', unsent: true });
    expect(server.asked.length).toBe(before + 1);
  });

  it.each([
    ['a space', 'a b'],
    ['2,000 characters', 'x'.repeat(2000)],
    ['other letters', 'é'],
    ['nothing', ''],
  ])('is not begun under a name that has %s', async (_, session) => {
    const error = await refused(opened(await serve({ session })));
    expect(error).toMatchObject({ name: 'McpFailed', message: expect.stringContaining('session id') as string });
  });
});

describe('a server that is down is never an observation', () => {
  const status = (code: number, headers: Record<string, string> = {}, body = '') =>
    ({
      instead: (_, { method }, response) => {
        if (method !== 'tools/call') return false;
        response.writeHead(code, headers).end(body);
        return true;
      },
    }) satisfies McpServerOptions;
  const json = { 'content-type': 'application/json' };
  const noResult = {
    instead: (_, { id, method }, response) => {
      if (method === 'tools/call') response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id }));
      return method === 'tools/call';
    },
  } satisfies McpServerOptions;

  it.each<[string, McpServerOptions, object]>([
    ['refuses the key', status(401), { kind: 'key', unsent: true }],
    ['is overloaded', status(503, { 'retry-after': '7' }), { kind: 'server', unsent: false, retryAfterMs: 7000 }],
    ['has too many calls', status(429), { kind: 'server', unsent: true }],
    ['sends elsewhere', status(307, { location: 'http://169.254.169.254/latest' }), { kind: 'client', unsent: true }],
    ['sends to a private address', status(302, { location: 'http://10.0.0.1/mcp' }), { kind: 'client', unsent: true }],
    ['answers with a page', status(200, { 'content-type': 'text/html' }, '<html>'), { kind: 'answer', unsent: false }],
    ['answers nothing', status(200, json), { kind: 'answer', unsent: false }],
    ['answers another request', status(200, json, '{"jsonrpc":"2.0","id":1,"result":{}}'), { kind: 'answer' }],
    ['answers without a result', noResult, { kind: 'answer', unsent: false }],
    ['ends its stream early', status(200, { 'content-type': 'text/event-stream' }, 'data: {}\n\n'), { kind: 'answer' }],
  ])('one that %s', async (_, options, expected) => {
    const server = await serve();
    const { does } = await opened(server);
    server.options = options;
    const before = server.asked.length;
    const error = await refused(does('greet'));
    expect(error).toBeInstanceOf(ServiceUnavailable);
    expect(error).toMatchObject(expected);
    expect(error.message).toContain(`the MCP server far (${server.url}) `);
    expect(server.asked.length).toBe(before + 1);
  });

  it('one that cuts the connection, and one that does not listen', async () => {
    const server = await serve();
    const { does } = await opened(server);
    expect(await refused(does('drop'))).toMatchObject({ kind: 'connection', unsent: false });
    await server.close();
    servers.length = 0;
    expect(await refused(does('greet'))).toMatchObject({ kind: 'connection', unsent: true });
    expect(FAILURES[classOfError('ServiceUnavailable')].recovery).toBe('hold');
  });

  it('but what the call itself causes is', async () => {
    const server = await serve();
    const { does } = await opened(server);
    server.options = status(413);
    expect(await does('greet')).toMatch(/^Error: the MCP server far \(.*\) refuses the call \(status 413\)$/u);
    server.options = status(400, json, '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"what is odd"}}');
    expect(await does('greet')).toBe('Error: what is odd');
  });
});

describe('where a worker may go', () => {
  it.each<[object, RegExp]>([
    [{ url: 'ftp://host/mcp' }, /^mcp\.far\.url: .*give an address such as https/u],
    [{ url: 'https://me:secret@host/mcp' }, /^mcp\.far\.url: /u],
    [{ url: 'https://host', command: ['x'] }, /^mcp\.far\.command: .*leave it out/u],
    [{ url: 'https://host', effect: 'sandbox' }, /^mcp\.far\.effect: "sandbox" .*none/u],
    [{ url: 'https://host', key: 'sk-12345' }, /^mcp\.far\.key: "\(not shown\)" .*never the key/u],
    [{ url: 'https://host', tools: 'add' }, /^mcp\.far\.tools: "add" .*give a list/u],
  ])('%j is refused before anything starts', (spec, message) => {
    expect(() => checkServers({ far: spec as McpHttpServer }, false)).toThrow(message);
  });

  it('is what the operator lists, for each request; without a list, neither link-local addresses nor metadata services', async () => {
    checkServers({ far: { url: 'https://host/mcp' } }, false);
    const at = (url: string) => () => checkReach({ far: { url } });
    expect(at('http://169.254.169.254/mcp')).toThrow(/^mcp\.far\.url: /u);
    expect(() => checkReach({ far: { url: 'https://host/mcp', key: 'K' } })).toThrow(
      /^mcp\.far\.key: "K" .*LONGHAUL_KEYS=K@https:\/\/host/u,
    );
    vi.mocked(lookup).mockImplementationOnce(((...given: unknown[]) => {
      const callback = given.at(-1) as (error: null, found: unknown) => void;
      callback(null, [{ address: '169.254.169.254', family: 4 }]);
    }) as typeof lookup);
    const named = listOverHttp({ far: { url: 'http://metadata.example/mcp' } }, signal);
    expect(await refused(named)).toMatchObject({
      name: 'UserInputError',
      message: expect.stringMatching(/^mcp\.far\.url: .*resolves to 169\.254\.169\.254/u) as string,
    });
    const server = await serve();
    const { does } = await opened(server);
    vi.stubEnv('LONGHAUL_ENDPOINTS', 'https://listed.example/mcp');
    expect(at('https://listed.example/mcp')).not.toThrow();
    expect(at('https://listed.example/other')).toThrow(/^mcp\.far\.url: .*LONGHAUL_ENDPOINTS/u);
    const before = server.asked.length;
    expect(await refused(does('greet'))).toMatchObject({ name: 'UserInputError' });
    expect(server.asked.length).toBe(before);
  });
});
