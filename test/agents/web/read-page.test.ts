/**
 * Hunts a policy that makes a worker read what is not on the public web: this machine, its network, the services with its
 * credentials. The server of these tests is on loopback, which an option must allow.
 */
import { lookup } from 'node:dns';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { isPublicAddress } from '../../../agents/web/public-address.ts';
import { type PageReader, pageUrl, readPage } from '../../../agents/web/read-page.ts';

vi.mock('node:dns', { spy: true });

const { signal } = new AbortController();
let server: Server;
let port: number;
let answer: RequestListener;
const asked: string[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    answer(request, response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const reader = (more: Partial<PageReader> = {}): PageReader => ({
  reader: 'direct',
  readerUrl: 'https://r.jina.ai',
  allowPrivate: [`127.0.0.1:${port}`],
  timeoutSeconds: 10,
  ...more,
});
const read = (url: string, more: Partial<PageReader> = {}) => readPage(pageUrl(url), reader(more), signal);

it.each([
  '127.0.0.1',
  '127.8.8.8',
  '10.1.2.3',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '0.0.0.0',
  '224.0.0.1',
  '255.255.255.255',
  '168.63.129.16',
  '198.18.0.1',
  '::1',
  '::',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '64:ff9b::7f00:1',
  '2002:7f00:1::',
  'fe80::1',
  'fc00::1',
  'fd00:ec2::254',
  'ff02::1',
  '2001:db8::1',
  '2001::1',
  '::127.0.0.1',
  'no address',
])('%s is not public', (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

it.each(['1.1.1.1', '8.8.8.8', '172.32.0.1', '100.128.0.1', '2606:4700:4700::1111', '2a00:1450:4001:800::200e'])(
  '%s is public',
  (address) => {
    expect(isPublicAddress(address)).toBe(true);
  },
);

it.each([
  ['http://127.0.0.1/', /127.0.0.1 is not on the public internet/],
  ['http://2130706433/', /127.0.0.1 is not on/],
  ['http://0x7f.1/', /127.0.0.1 is not on/],
  ['http://[::1]/', /::1 is not on/],
  ['http://[::ffff:127.0.0.1]/', /is not on the public internet/],
  ['http://169.254.169.254/latest/meta-data/', /is not on the public internet/],
  ['http://user:pass@example.com/', /without user and password/],
  ['http://example.com:22/', /port 22 cannot be read/],
  ['file:///etc/passwd', /no URL of a page/],
  ['gopher://example.com/', /no URL of a page/],
])('%s is refused before anything is sent', async (url, message) => {
  await expect((async () => read(url, { allowPrivate: [] }))()).rejects.toThrow(message);
});

it('a name with a private address is refused, also if another one of its addresses is public', async () => {
  const resolved = vi.mocked(lookup) as unknown as { mockImplementation: (f: (...given: unknown[]) => void) => void };
  resolved.mockImplementation((_name, _options, callback) => {
    (callback as (error: null, found: unknown) => void)(null, [
      { address: '1.1.1.1', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]);
  });
  asked.length = 0;
  await expect(read('http://rebind.example/', { allowPrivate: [] })).rejects.toThrow(
    /rebind.example is not on the public/,
  );
  expect(asked).toEqual([]);
  vi.mocked(lookup).mockReset();
});

it('a redirect to a private address is refused; the server there is not asked', async () => {
  answer = (request, response) => {
    if (request.url === '/start') response.writeHead(302, { location: `http://localhost:${port}/secret` }).end();
    else response.end('secret');
  };
  asked.length = 0;
  await expect(read(`http://127.0.0.1:${port}/start`)).rejects.toThrow(/cannot be read|public internet/);
  expect(asked).toEqual(['/start']);
});

it('redirects without an end are given up, and a page of an odd kind is told', async () => {
  answer = (_request, response) => void response.writeHead(302, { location: '/again' }).end();
  await expect(read(`http://127.0.0.1:${port}/`)).rejects.toThrow(/redirects more than 5 times/);
  answer = (_request, response) => void response.writeHead(200, { 'content-type': 'image/png' }).end('x');
  await expect(read(`http://127.0.0.1:${port}/`)).rejects.toThrow(/image\/png, which cannot be read/);
  answer = (_request, response) => void response.writeHead(404).end();
  await expect(read(`http://127.0.0.1:${port}/`)).rejects.toThrow(/status 404/);
});

it('an article is read without its surroundings and scripts', async () => {
  const body = Array.from(
    { length: 12 },
    (_, i) => `<p>Sentence number ${i} about the harbour, and it is a long one.</p>`,
  );
  answer = (_request, response) =>
    void response
      .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
      .end(
        `<html><head><title>Harbour</title><script>alert(1)</script></head><body><nav><a href="/">Home</a></nav><article><h1>Harbour</h1>${body.join('')}</article></body></html>`,
      );
  const page = await read(`http://127.0.0.1:${port}/`);
  expect(page.title).toBe('Harbour');
  expect(page.text).toMatch(/Sentence number 0 about the harbour.*\nSentence number 1/);
  expect(page.text).not.toMatch(/alert/);
});

it('a page that is large, deep or slow ends in time', async () => {
  answer = (_request, response) =>
    void response.writeHead(200, { 'content-type': 'text/html' }).end('<div>'.repeat(400_000));
  const url = `http://127.0.0.1:${port}/`;
  const end = await read(url, { timeoutSeconds: 3 }).then(
    ({ text }) => text,
    (error: Error) => error.name,
  );
  expect(['', 'PageRefused']).toContain(end);
  answer = (_request, response) => void response.writeHead(200, { 'content-type': 'text/html' }).write('<p>');
  await expect(read(`http://127.0.0.1:${port}/`, { timeoutSeconds: 1 })).rejects.toThrow(/no answer within/);
}, 60_000);
