/**
 * A real registry on loopback (Debian's `docker-registry`), behind a door that counts requests and can be shut. It may
 * ask for who is there.
 */

import { spawn } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Registry {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  /** Requests for manifests that came through since the last `reset`. */
  manifests(): number;
  /** Forgets what was counted; the next `failures` requests for manifests are answered with `status`, 503 unless given. */
  reset(failures?: number, status?: number): void;
  stop(): Promise<void>;
}

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The one who may in, where not everybody may. */
export const REGISTRY_LOGIN = { username: 'longhaul', password: 'pass:word' };
/** bcrypt of that password, as `htpasswd -B` writes it. */
const HTPASSWD = 'longhaul:$2b$05$longhaulregistrytests.eLjosl4b.mxZ2Ubx8.jIKFMFiwl3/wO\n';

async function startInner(folder: string, asksWho: boolean): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const port = await freePort();
  writeFileSync(join(folder, 'htpasswd'), HTPASSWD);
  const auth = asksWho ? { auth: { htpasswd: { realm: 'tests', path: join(folder, 'htpasswd') } } } : {};
  const storage = { filesystem: { rootdirectory: join(folder, 'data') }, delete: { enabled: true } };
  writeFileSync(
    join(folder, 'config.yml'),
    JSON.stringify({ version: '0.1', log: { level: 'error' }, storage, ...auth, http: { addr: `127.0.0.1:${port}` } }),
  );
  const log = openSync(join(folder, 'log'), 'a');
  const child = spawn('docker-registry', ['serve', join(folder, 'config.yml')], { stdio: ['ignore', log, log] });
  let failed: Error | undefined;
  child.once(
    'error',
    (error) => (failed = new Error(`these tests need a registry (apt install docker-registry): ${error.message}`)),
  );
  const ended = new Promise((resolve) => child.once('close', resolve));
  for (const deadline = Date.now() + 20_000; ; await sleep(20)) {
    if (failed !== undefined) throw failed;
    const up = await fetch(`http://127.0.0.1:${port}/v2/`).then(
      (answer) => answer.ok || answer.status === 401,
      () => false,
    );
    if (up) break;
    if (Date.now() > deadline) throw new Error('the registry of the tests does not answer');
  }
  return {
    port,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Errors: an `Error` that says what is missing. */
export async function startRegistry({ asksWho = false }: { readonly asksWho?: boolean } = {}): Promise<Registry> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-registry-'));
  const inner = await startInner(folder, asksWho);
  let seen = 0;
  let failures = 0;
  let failure = 503;
  const door = createServer((from, to) => {
    // A daemon asks by HEAD first and by GET if it likes what it hears: one pull is counted once.
    const isManifest = from.url?.includes('/manifests/') === true && (from.method === 'HEAD' || from.method === 'GET');
    if (isManifest && failures > 0) {
      failures -= 1;
      to.writeHead(failure).end();
      return;
    }
    if (isManifest && from.method === 'GET') seen += 1;
    // The registry names itself by the host that it is asked for.
    const forward = request(
      { port: inner.port, host: '127.0.0.1', method: from.method, path: from.url, headers: from.headers },
      (answer) => {
        to.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(to);
      },
    );
    forward.once('error', () => to.destroy());
    from.pipe(forward);
  });
  const port = await listen(door);
  return {
    address: `127.0.0.1:${port}`,
    manifests: () => seen,
    reset(count = 0, status = 503) {
      seen = 0;
      failures = count;
      failure = status;
    },
    async stop() {
      door.closeAllConnections();
      await new Promise((resolve) => door.close(resolve));
      await inner.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
