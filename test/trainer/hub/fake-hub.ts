/**
 * A hub on loopback over HTTP: the commit of a model or a dataset, its files, ranges of them; it can break off and
 * refuse.
 */

import { createHash } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FakeHub {
  readonly endpoint: string;
  /** `METHOD path range`. */
  readonly asked: string[];
  readonly tokens: Array<string | undefined>;
  commit: string;
  files: ReadonlyMap<string, Buffer>;
  /** Number of answers whose connection ends after half of the body. */
  breakOff: number;
  /** If set, the status of every answer. */
  refuse: number | undefined;
  close(): Promise<void>;
}

const sha256 = (data: Buffer): string => createHash('sha256').update(data).digest('hex');

function tree(files: ReadonlyMap<string, Buffer>): unknown[] {
  const isLarge = (name: string): boolean => /\.(safetensors|parquet)$/.test(name);
  return [...files].map(([path, data]) => ({
    type: 'file',
    path,
    size: data.length,
    oid: createHash('sha1').update(data).digest('hex'),
    ...(isLarge(path) ? { lfs: { oid: sha256(data), size: data.length, pointerSize: 130 } } : {}),
  }));
}

function sendFile(request: IncomingMessage, response: ServerResponse, data: Buffer, hub: FakeHub): void {
  const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const [begin, end] = [Number(from), Math.min(data.length, to === '' ? data.length : Number(to) + 1)];
  const body = data.subarray(begin, end);
  const ranged =
    request.headers.range === undefined ? {} : { 'content-range': `bytes ${begin}-${end - 1}/${data.length}` };
  response.writeHead(request.headers.range === undefined ? 200 : 206, {
    etag: `"${sha256(data)}"`,
    'content-length': body.length,
    ...ranged,
  });
  if (hub.breakOff > 0 && body.length > 1_000_000) {
    hub.breakOff -= 1;
    response.write(body.subarray(0, body.length / 2), () => setTimeout(() => request.socket.destroy(), 30));
    return;
  }
  response.end(body);
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

/** The path of a dataset's file begins with `datasets/`, that of a model's does not. */
const PREFIX = { model: '', dataset: 'datasets/' } as const;

export async function startFakeHub(
  repo: string,
  files: ReadonlyMap<string, Buffer>,
  kind: 'model' | 'dataset' = 'model',
): Promise<FakeHub> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://hub');
    hub.asked.push(`${request.method} ${decodeURIComponent(pathname)} ${request.headers.range ?? ''}`.trim());
    hub.tokens.push(request.headers.authorization);
    const json = (status: number, body: unknown): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (hub.refuse !== undefined) return json(hub.refuse, { error: 'no' });
    if (pathname.startsWith(`/api/${kind}s/${repo}/revision/`)) {
      return json(200, {
        _id: '1',
        id: repo,
        sha: hub.commit,
        private: false,
        gated: false,
        downloads: 0,
        likes: 0,
        lastModified: '2025-01-01T00:00:00.000Z',
      });
    }
    if (pathname === `/api/${kind}s/${repo}/tree/${hub.commit}`) return json(200, tree(hub.files));
    if (pathname === `/api/${kind}s/${repo}/paths-info/${hub.commit}`)
      return void bodyOf(request).then((body) => {
        const { paths } = body as { paths: readonly string[] };
        json(200, tree(new Map([...hub.files].filter(([path]) => paths.includes(path)))));
      });
    const data = hub.files.get(
      decodeURIComponent(pathname).replace(`/${PREFIX[kind]}${repo}/resolve/${hub.commit}/`, ''),
    );
    if (data === undefined) return json(404, { error: 'Entry not found' });
    return sendFile(request, response, data, hub);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const hub: FakeHub = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    tokens: [],
    commit: '0123456789abcdef0123456789abcdef01234567',
    files,
    breakOff: 0,
    refuse: undefined,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return hub;
}
