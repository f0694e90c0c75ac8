/**
 * Hunts a key that is sent where its operator did not allow it: to another origin, path or scheme, after a redirect, or
 * by the name of a variable that is not listed; and addresses that provide a machine's credentials. Not asserted: what
 * a server at an allowed address does with its key.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { allowedEndpoints, allowedKeys, type BadEntry, covers, keyText } from '../../endpoints/allowed-addresses.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { EndpointError } from '../../endpoints/endpoint-error.ts';
import { checkHost, guardedLookup } from '../../endpoints/never-asked.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';

const servers: LoopbackServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const SECRET = 'sk-very-secret';
const good = { body: { choices: [{ message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }] } };
const { signal } = new AbortController();

async function listening(handler: Parameters<typeof startLoopback>[0] = () => good): Promise<LoopbackServer> {
  const server = await startLoopback(handler);
  servers.push(server);
  return server;
}

/** The result of a chat call to `baseUrl`, by a worker with that environment. */
async function ask(baseUrl: string, env: Record<string, string>, apiKeyEnv?: string): Promise<string> {
  const given = {
    baseUrl,
    model: 'm',
    mode: 'chat',
    maxTries: 1,
    timeoutSeconds: 20,
    ...(apiKeyEnv === undefined ? {} : { apiKeyEnv }),
  };
  const endpoint = resolveEndpoint(given, 'e', (field, _value, remedy) => {
    throw new Error(`${field}: ${remedy}`);
  });
  const client = new EndpointClient({ KEY: SECRET, OTHER: 'other-secret', ...env });
  const call = {
    messages: [{ role: 'user' as const, content: 'x' }],
    tools: [],
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 1 },
  };
  return client.chat(endpoint, call, signal).then(
    () => 'answered',
    (error: unknown) => (error instanceof EndpointError ? error.kind : String(error)),
  );
}

describe('a key', () => {
  it('is sent to the address of its entry, and to those below it', async () => {
    const server = await listening();
    expect(await ask(server.baseUrl, { LONGHAUL_KEYS: `KEY@${server.baseUrl}` }, 'KEY')).toBe('answered');
    expect(await ask(server.baseUrl, { LONGHAUL_KEYS: `KEY@${new URL(server.baseUrl).origin}` }, 'KEY')).toBe(
      'answered',
    );
    expect(server.asked.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${SECRET}`, `Bearer ${SECRET}`]);
  });

  it('that is on no list, or on it for another address, is not sent, and nothing is asked', async () => {
    const [server, other] = [await listening(), await listening()];
    for (const keys of [
      '',
      `OTHER@${server.baseUrl}`,
      `KEY@${other.baseUrl}`,
      `KEY@${server.baseUrl}/below`,
      `KEY@${server.baseUrl.slice(0, -1)}`,
    ]) {
      expect([keys, await ask(server.baseUrl, { LONGHAUL_KEYS: keys }, 'KEY')]).toEqual([keys, 'key-not-allowed']);
    }
    expect(await ask(server.baseUrl, { LONGHAUL_KEYS: '' }, 'PATH')).toBe('key-not-allowed');
    expect([...server.asked, ...other.asked]).toEqual([]);
  });

  it('does not follow a redirect to any host', async () => {
    const thief = await listening();
    for (const status of [301, 302, 303, 307, 308]) {
      const server = await listening(() => ({
        status,
        headers: { location: `${thief.baseUrl}/chat/completions` },
        body: {},
      }));
      expect(await ask(server.baseUrl, { LONGHAUL_KEYS: `KEY@${server.baseUrl}` }, 'KEY')).not.toBe('answered');
      expect(server.asked.length).toBe(1);
    }
    expect(thief.asked).toEqual([]);
  });

  it.each([
    ['https://host/v1', 'https://host/v1/chat/completions', true],
    ['https://host/v1', 'https://host/v1', true],
    ['https://host/v1/', 'https://host/v1/models', true],
    ['https://host', 'https://host/any', true],
    ['https://host:443/v1', 'https://HOST/v1/x', true],
    ['https://host/v1', 'https://host/v10/x', false],
    ['https://host/v1', 'https://host/v1/../admin', false],
    ['https://host/v1', 'https://host/v1/%2e%2e/admin', false],
    ['https://host/v1', 'https://host/v1/%2e%2e%2fadmin', false],
    ['https://host/v1', 'https://host/v1/..\\admin', false],
    ['https://host/v1', 'https://host/v1/%252e%252e/admin', false],
    ['https://host/v1', 'https://host/v1/..;/admin', false],
    ['https://host/v1', 'https://host/v1/..%3b/admin', false],
    ['https://host/v1', 'https://host/v1/..%253B/admin', false],
    ['https://host/v1', 'https://host/v1/a;b/%20', true],
    ['https://host/v1', 'https://host/v1/a..b/%3b', true],
    ['https://host/v1', 'https://host:8443/v1/x', false],
    ['https://host/v1', 'http://host/v1/x', false],
    ['https://host/v1', 'https://host.evil.example/v1/x', false],
    ['https://host/v1', 'https://host@evil.example/v1/x', false],
    ['https://host/v1', 'https://user@host/v1/x', false],
  ])('of %s is covered for %s: %s', (entry, url, covered) => {
    const [key] = allowedKeys({ LONGHAUL_KEYS: `K@${entry}` });
    expect(covers(key!, url)).toBe(covered);
  });
});

describe('the list', () => {
  it('is entries, or a file of them', () => {
    const dir = mkdtempSync(join(tmpdir(), 'longhaul-keys-'));
    const file = join(dir, 'keys');
    writeFileSync(file, '# of the team\nA@https://a.example/v1\n\nB@http://127.0.0.1:8000\n');
    for (const value of [
      file,
      'A@https://a.example/v1,B@http://127.0.0.1:8000',
      ' A@https://a.example/v1/ B@http://127.0.0.1:8000/ ',
    ]) {
      expect(allowedKeys({ LONGHAUL_KEYS: value }).map(keyText)).toEqual([
        'A@https://a.example/v1',
        'B@http://127.0.0.1:8000',
      ]);
    }
    rmSync(dir, { recursive: true });
    expect(allowedKeys({})).toEqual([]);
  });

  it.each([
    ['sk-secret', '(not shown)'],
    ['sk-secret@https://a.example', '(not shown)'],
    ['A@a.example', 'A@a.example'],
    ['A@http://a.example/v1', 'A@http://a.example/v1'],
    ['A@http://127.0.0.1.evil.example', 'A@http://127.0.0.1.evil.example'],
    ['A@https://a.example/?key=1', 'A@https://a.example/?key=1'],
    ['/no/such/file', '/no/such/file'],
  ])('with %s is rejected, and the error shows no key', (value, entry) => {
    expect(() => allowedKeys({ LONGHAUL_KEYS: value })).toThrow(
      expect.objectContaining({ name: 'BadEntry', variable: 'LONGHAUL_KEYS', entry } satisfies Partial<BadEntry>),
    );
  });
});

describe('an address', () => {
  it.each([
    'http://169.254.169.254/latest',
    'http://[fe80::1]/v1',
    'http://[::ffff:169.254.169.254]/v1',
    'http://0.0.0.0:1/v1',
    'http://[fd00:ec2::254]/v1',
    'http://2852039166/v1',
    'http://100.100.100.200/v1',
    'http://[::a9fe:a9fe]/v1',
    'http://[64:ff9b::a9fe:a9fe]/v1',
    'http://[64:ff9b::6464:64c8]/v1',
    'http://[fd20:ce::254]/v1',
  ])('that is link-local or of a metadata service is no endpoint: %s', (baseUrl) => {
    expect(() => checkHost(new URL(baseUrl))).toThrow(expect.objectContaining({ kind: 'address-not-allowed' }));
  });

  it('that is no endpoint is never asked', async () => {
    expect(await ask('http://0.0.0.0:1/v1', {})).toBe('address-not-allowed');
  });

  it('is checked for the addresses that its name resolves to', async () => {
    const asked = (name: string) =>
      new Promise<unknown>((done) =>
        guardedLookup(name, { all: true, family: 4 }, (error, found) => done(error ?? found)),
      );
    expect(await asked('localhost')).toEqual([{ address: '127.0.0.1', family: 4 }]);
    expect(await asked('169.254.169.254')).toMatchObject({ kind: 'address-not-allowed' });
  });

  it('must be a listed one if there is a list', async () => {
    const [server, other] = [await listening(), await listening()];
    const env = { LONGHAUL_ENDPOINTS: server.baseUrl };
    expect(await ask(server.baseUrl, env)).toBe('answered');
    expect(await ask(other.baseUrl, env)).toBe('address-not-allowed');
    expect(await ask(other.baseUrl, { ...env, LONGHAUL_KEYS: `KEY@${other.baseUrl}` }, 'KEY')).toBe('answered');
    expect(other.asked.length).toBe(1);
    expect(allowedEndpoints({})).toBeUndefined();
  });
});
