/**
 * Hunts bodies that keep out others while they are received, a server that serves requests before it is ready or does
 * not answer at all until then, and refusals that a client cannot read. Over real sockets, with the test's own routes.
 */
import { connect, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { ApiError, type ErrorDialect } from '../../../servers/http/api-error.ts';
import { HttpServer, type HttpServerOptions, type SentEvent } from '../../../servers/http/http-server.ts';

const errors: ErrorDialect = {
  refusalOf: (error) => (error instanceof ApiError ? error : new ApiError(500, 'it failed')),
  bodyOf: ({ message, code }) => ({ message, code }),
};
let server: HttpServer | undefined;
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server?.close(0);
  server = undefined;
});

async function listening({ limits, ...rest }: Partial<HttpServerOptions> = {}) {
  const made = new HttpServer({ host: '127.0.0.1', port: 0, ...(limits ? { limits } : {}), ...rest }, errors);
  server = made;
  made.app.get('/', (c) => c.text('here'));
  made.app.get('/fails', () => {
    throw new Error('inside');
  });
  made.app.post('/length', async (c) => {
    made.slots.check();
    const length = await made.bodies.use(c.env.incoming, (body) => Promise.resolve(body.length));
    return c.json(await made.slots.hold(() => Promise.resolve({ length })));
  });
  await made.start();
  return made;
}
const open = async (options?: Partial<HttpServerOptions>) => {
  const made = await listening(options);
  made.open();
  return made;
};

const post = (body: string) =>
  fetch(`${server!.url}/length`, { method: 'POST', body, headers: { 'content-type': 'application/json' } });

/** A request whose body does not end. Resolves with the complete answer. */
function sendSlowly(
  declared: number,
  sent: string,
): { readonly sent: Promise<void>; readonly answer: Promise<string> } {
  const { port } = new URL(server!.url);
  const socket = connect(Number(port), '127.0.0.1');
  sockets.push(socket);
  const head = `POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${declared}\r\n\r\n`;
  const answer = new Promise<string>((resolve) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (/\r\n\r\n.*\}$/su.test(text)) resolve(text);
    });
    socket.on('error', () => resolve(text)).on('close', () => resolve(text));
  });
  return { sent: new Promise((resolve) => socket.write(head + sent, () => resolve())), answer };
}
/** Waits until the server has read what was sent. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 200));

it('bodies that are being received hold no slot', async () => {
  await open({ limits: { maxRequests: 1 } });
  const slow = Array.from({ length: 20 }, () => sendSlowly(1000, '{"a":'));
  await Promise.all(slow.map(({ sent }) => sent));
  await settle();
  const answer = await post('{}');
  expect([answer.status, await answer.json()]).toEqual([200, { length: 2 }]);
});

it('a body that does not arrive is refused, and waiting requests are answered', async () => {
  await open({ limits: { bodySeconds: 0.3 } });
  const { answer } = sendSlowly(1000, '{"a":');
  expect((await post('{}')).status).toBe(200);
  expect(await answer).toMatch(/^HTTP\/1\.1 408 .*"code":"timeout"/su);
});

it('if all bodies together are too large, the largest is refused and the small ones are answered', async () => {
  await open({ limits: { bodyBudgetBytes: 1000, maxBodyBytes: 900 } });
  const large = sendSlowly(850, 'x'.repeat(800));
  await large.sent;
  await settle();
  expect((await post('x'.repeat(300))).status).toBe(200);
  expect(await large.answer).toMatch(/^HTTP\/1\.1 429 .*retry-after: 1.*"code":"rate_limit_exceeded"/su);
  // Refused and answered bodies are no longer counted.
  for (let i = 0; i < 3; i += 1) expect((await post('x'.repeat(850))).status).toBe(200);
});

it('a body whose content-length is too large is refused before it is received', async () => {
  await open({ limits: { maxBodyBytes: 100 } });
  expect(await sendSlowly(101, '').answer).toMatch(/^HTTP\/1\.1 413 /u);
  expect((await post('x'.repeat(100))).status).toBe(200);
});

it('a body without content-length is refused as soon as it is too long, and its caller can read the refusal', async () => {
  await open({ limits: { maxBodyBytes: 100 } });
  const stream = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1000)) });
  const init = { method: 'POST', body: stream, duplex: 'half', headers: { 'content-type': 'application/json' } };
  const answer = await fetch(`${server!.url}/length`, init as RequestInit);
  expect([answer.status, await answer.json()]).toMatchObject([
    413,
    { message: 'a request may have at most 100 bytes' },
  ]);
});

it('until it is open, it answers admitted callers that it is starting', async () => {
  const made = await listening({ apiKey: 'sk' });
  const ask = async (path: string, key = 'sk') => {
    const answer = await fetch(`${made.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
    return [answer.status, answer.headers.get('retry-after'), await answer.text()];
  };
  expect(await ask('/')).toEqual([503, '1', expect.stringContaining('"code":"starting"') as string]);
  expect((await ask('/', 'other'))[0]).toBe(401);
  expect(await ask('/health')).toEqual([503, null, '{"status":"starting"}']);
  made.open();
  expect(await ask('/')).toEqual([200, null, 'here']);
  expect(await ask('/health')).toEqual([200, null, '{"status":"ok"}']);
});

it('gives each request an id, keeps a given one, and reports it with a failure', async () => {
  const failed: unknown[] = [];
  const made = await open({ onFailure: (error, id) => failed.push((error as Error).message, id) });
  const own = await fetch(`${made.url}/nowhere`);
  expect([own.status, own.headers.get('x-request-id')]).toEqual([404, expect.stringMatching(/^[\w-]{36}$/u)]);
  const given = await fetch(`${made.url}/fails`, { headers: { 'x-request-id': 'mine-1' } });
  expect([given.status, given.headers.get('x-request-id')]).toEqual([500, 'mine-1']);
  expect(await given.json()).toMatchObject({ message: 'it failed' });
  expect(failed).toEqual(['inside', 'mine-1']);
});

it('methods that a path does not have are refused, with the names of those that it has', async () => {
  const made = await open();
  const answer = await fetch(`${made.url}/length`, { method: 'DELETE' });
  expect([answer.status, answer.headers.get('allow'), await answer.json()]).toMatchObject([
    405,
    'POST',
    { message: '/length takes POST' },
  ]);
});

it('a stream that fails before its first event has the status of the failure; later, the refusal is its last event', async () => {
  const made = await listening();
  const produce = async (send: (event: SentEvent) => void, before: number) => {
    for (let i = 0; i < before; i += 1) send({ data: `${i}`, ...(i === 1 ? { event: 'one' } : {}) });
    await Promise.resolve();
    throw new ApiError(404, 'gone');
  };
  made.app.get('/events/:before', (c) =>
    made.events(
      c,
      (send) => produce(send, Number(c.req.param('before'))),
      ({ message }) => [{ event: 'error', data: message }],
    ),
  );
  made.open();
  const none = await fetch(`${made.url}/events/0`);
  expect([none.status, await none.json()]).toMatchObject([404, { message: 'gone' }]);
  const some = await fetch(`${made.url}/events/2`);
  expect([some.status, some.headers.get('content-type'), await some.text()]).toEqual([
    200,
    'text/event-stream',
    'data: 0\n\nevent: one\ndata: 1\n\nevent: error\ndata: gone\n\n',
  ]);
});

/** The complete answer to a text that is sent as it is. `ends`: the caller then closes its side for writing. */
function sendRaw(text: string, { ends = false } = {}): Promise<string> {
  const socket = connect({ port: Number(new URL(server!.url).port), host: '127.0.0.1', allowHalfOpen: true });
  sockets.push(socket);
  if (ends) socket.end(text);
  else socket.write(text);
  return new Promise((resolve) => {
    let told = '';
    const over = () => resolve(told);
    socket.on('data', (chunk) => {
      told += chunk.toString();
    });
    socket.on('error', over).on('close', over).on('end', over);
  });
}
const statusOf = async (text: string) => /^HTTP\/1\.1 (\d+)/u.exec(await sendRaw(text))?.[1];
const get = (target: string, ...headers: string[]) =>
  `GET ${target} HTTP/1.1\r\n${headers.map((line) => `${line}\r\n`).join('')}Connection: close\r\n\r\n`;

it('without a key, loopback names are admitted in any case and with the root, others are not', async () => {
  await open();
  for (const host of ['LOCALHOST', 'localhost.', 'Localhost.:80', '127.0.0.1', '[::1]:80'])
    expect([host, await statusOf(get('/', `Host: ${host}`))]).toEqual([host, '200']);
  for (const host of ['evil.example', 'localhost.evil.example', 'localhost..', 'xlocalhost', '127.0.0.1.evil.example'])
    expect([host, await statusOf(get('/', `Host: ${host}`))]).toEqual([host, expect.stringMatching(/^40[03]$/u)]);
});

it('the host of an absolute target is checked like the header, and two hosts are refused', async () => {
  await open();
  for (const target of ['http://evil.example/', 'HTTP://evil.example/', 'http://localhost@evil.example/'])
    expect([target, await statusOf(get(target, 'Host: localhost'))]).toEqual([
      target,
      expect.stringMatching(/^40[03]$/u),
    ]);
  expect(await statusOf(get('http://localhost:80/', 'Host: evil.example'))).toBe('403');
  expect(await statusOf(get('http://LOCALHOST/', 'Host: localhost'))).toBe('200');
  for (const path of ['/', '/health'])
    expect(await statusOf(get(path, 'Host: localhost', 'Host: localhost'))).toBe('400');
});

it('with a key, every host is admitted, but not two', async () => {
  await open({ apiKey: 'sk' });
  const key = 'Authorization: Bearer sk';
  expect(await statusOf(get('/', 'Host: a.example', key))).toBe('200');
  expect(await statusOf(get('http://b.example/', 'Host: a.example', key))).toBe('200');
  expect(await statusOf(get('/', 'Host: a.example', 'host: b.example', key))).toBe('400');
});

it('leave to send a body is given unless the body is too long, which is refused at once', async () => {
  await open({ limits: { maxBodyBytes: 100 } });
  const asking = (length: number) =>
    `POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`;
  expect(await sendRaw(asking(101))).toMatch(/^HTTP\/1\.1 413 /u);
  expect(await sendRaw(`${asking(2)}{}`)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 .*"length":2/su);
});

it('an answer that nobody reads is given up, and one that takes long to begin is not', async () => {
  const made = await listening({ limits: { unreadSeconds: 0.2 } });
  const long = 'x'.repeat(32 * 2 ** 20);
  made.app.get('/long', (c) => c.text(long));
  made.app.get('/events', (c) =>
    made.events(
      c,
      async (send) => {
        for (let i = 0; i < 32; i += 1) send({ data: long.slice(0, 2 ** 20) });
        await Promise.resolve();
      },
      () => [],
    ),
  );
  made.app.get('/late', async (c) => {
    await new Promise((resolve) => setTimeout(resolve, 700));
    return c.text('late');
  });
  made.open();
  for (const path of ['/long', '/events']) {
    const socket = connect(Number(new URL(made.url).port), '127.0.0.1').pause();
    sockets.push(socket);
    socket.on('error', () => undefined).write(get(path, 'Host: localhost'));
  }
  expect(await sendRaw(get('/late', 'Host: localhost'))).toMatch(/^HTTP\/1\.1 200 .*late$/su);
  await expect.poll(() => made.answered, { timeout: 20_000 }).toBe(3);
});
