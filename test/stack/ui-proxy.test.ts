/**
 * Hunts a web page that uses Temporal's UI, which gives access to all of the server's data: by a name that resolves to
 * this machine, by a form or a script of another site, or past the proxy. Server, UI and proxy are real. Not asserted:
 * what the UI looks like, and programs of this machine.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { serverProgram } from '../../stack/stack-plan.ts';
import { startUiProxy, whyForeign } from '../../stack/ui-proxy.ts';
import type { UiAddress } from '../../connection/stack-state.ts';
import { checkCluster } from '../../stack/temporal-server/cluster-health.ts';
import { chooseHidden, choosePort } from '../../stack/temporal-server/free-port.ts';
import { serverArguments } from '../../stack/temporal-server/server-arguments.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-ui-'));
let server: ChildProcess;
let door: Server;
let port: number;
let address: string;
let hidden: UiAddress;

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

function ask(path: string, headers: Record<string, string> = {}, method = 'GET', body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function answers(): Promise<void> {
  for (;;) {
    const isUp = await Promise.all([
      checkCluster({ address }, 'default', 1000),
      ask('/').then(({ status }) => {
        if (status !== 200) throw new Error(String(status));
      }),
    ]).then(
      () => true,
      () => false,
    );
    if (isUp) return;
    await sleep(200);
  }
}

beforeAll(async () => {
  const grpc = await choosePort([]);
  [port, hidden, address] = [await choosePort([], (one) => one === grpc), await chooseHidden(), `127.0.0.1:${grpc}`];
  const args = serverArguments({ port: grpc, ui: hidden, database: join(dir, 'temporal.db'), namespace: 'default' });
  server = spawn(serverProgram(process.env), args, { stdio: 'ignore' });
  door = await startUiProxy(port, hidden);
  await answers();
});
afterAll(async () => {
  door?.close();
  door?.closeAllConnections();
  server?.kill('SIGTERM');
  if (server?.exitCode === null) await once(server, 'exit');
  rmSync(dir, { recursive: true, force: true });
});

const start = JSON.stringify({ workflowType: { name: 'rollout' }, taskQueue: { name: 'orchestrator' } });

it('pages, their deep links and the API are answered by the names of this machine', async () => {
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `LOCALHOST:${port}`, 'localhost:9999'])
    expect((await ask('/namespaces/default/workflows/a%2Fb', { host })).status).toBe(200);
  const { status, text } = await ask('/api/v1/namespaces', {
    origin: `http://127.0.0.1:${port}`,
    'sec-fetch-site': 'same-origin',
    'sec-fetch-mode': 'cors',
  });
  expect([status, text]).toEqual([200, expect.stringContaining('default')]);
  const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  expect((await ask('/namespaces/default/workflows', link)).status).toBe(200);
});

it.each([
  ['a name that was resolved anew', { host: 'evil.example' }],
  [
    'such a name with the port',
    { host: 'evil.example:8233', origin: 'http://evil.example:8233', 'sec-fetch-site': 'same-origin' },
  ],
  ['a name that begins alike', { host: '127.0.0.1.evil.example' }],
  ['another site', { origin: 'https://evil.example' }],
  ['a page without an origin', { origin: 'null' }],
  ['another port of this machine', { origin: 'http://127.0.0.1:3000' }],
  ['an old form', { origin: 'https://evil.example', authorization: 'x' }],
  ['an image or a script', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }],
  ['a frame', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' }],
])('%s reads nothing and starts nothing', async (_who, headers) => {
  expect((await ask('/api/v1/namespaces', headers)).status).toBe(403);
  const path = '/api/v1/namespaces/default/workflows/stolen';
  // With the token that the UI requires: a page of its own origin would have it.
  const token = /_csrf=([^;]+)/.exec(String((await ask('/')).headers['set-cookie']))?.[1] ?? '';
  const sent = { ...headers, 'content-type': 'text/plain', 'x-csrf-token': token, cookie: `_csrf=${token}` };
  expect((await ask(path, sent, 'POST', start)).status).toBe(403);
  const connection = await Connection.connect({ address });
  await expect(new Client({ connection }).workflow.getHandle('stolen').describe()).rejects.toMatchObject({
    name: 'WorkflowNotFoundError',
  });
  await connection.close();
});

it('a form of another site that is sent as a navigation is none of its links', () => {
  const form = {
    host: 'localhost:1',
    'sec-fetch-site': 'cross-site',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-dest': 'document',
  };
  expect(whyForeign({ method: 'POST', headers: form })).toBeDefined();
  expect(whyForeign({ method: 'GET', headers: form })).toBeUndefined();
  expect(whyForeign({ method: 'GET', headers: {} })).toBeDefined();
});

it('a request within a request, which nobody would look at, does not pass', async () => {
  const inner = `POST /api/v1/namespaces/default/workflows/stolen HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n\r\n`;
  expect((await ask('/', { 'transfer-encoding': 'chunked' }, 'GET', inner)).status).toBe(411);
});

it('the UI itself is at an address that is none of the known ones, and its door says when it is away', async () => {
  if (process.platform === 'linux') expect(hidden.host).not.toBe('127.0.0.1');
  const free = await choosePort([]);
  const other = await startUiProxy(free, await chooseHidden());
  const kept = port;
  port = free;
  expect(await ask('/')).toMatchObject({ status: 502, text: expect.stringContaining('npx longhaul ps') as string });
  port = kept;
  other.close();
  other.closeAllConnections();
});
