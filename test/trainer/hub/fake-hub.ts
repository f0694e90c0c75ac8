/** A hub on loopback over HTTP: a repository's commit, its files, ranges of them; it can break off and refuse. */

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
  const isLarge = (name: string): boolean => name.endsWith('.safetensors');
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

export async function startFakeHub(repo: string, files: ReadonlyMap<string, Buffer>): Promise<FakeHub> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://hub');
    hub.asked.push(`${request.method} ${decodeURIComponent(pathname)} ${request.headers.range ?? ''}`.trim());
    hub.tokens.push(request.headers.authorization);
    const json = (status: number, body: unknown): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (hub.refuse !== undefined) return json(hub.refuse, { error: 'no' });
    if (pathname.startsWith(`/api/models/${repo}/revision/`)) {
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
    if (pathname === `/api/models/${repo}/tree/${hub.commit}`) return json(200, tree(hub.files));
    const data = hub.files.get(pathname.replace(`/${repo}/resolve/${hub.commit}/`, ''));
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
