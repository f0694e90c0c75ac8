/** Temporal's server program: an existing cluster or binary, else one that is downloaded or built once. */

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { ask, MissingPrerequisites, run, which } from '../command.mjs';
import { makeDirectoryOnce, readJson, writeWhole } from '../files.mjs';
import { withGo } from './go-toolchain.mjs';
import { HashMismatch } from '../wheels/pinned-wheels.mjs';

/** The last version that `go install` builds: later ones have a replace directive. */
export const TEMPORAL_CLI = '1.5.1';

/** SHA-256 of the release's archives. Other platforms build it; there Go checks its public checksum database. */
const ARCHIVES = {
  'linux-x64': 'ddc95e08b0b076efd4ea9733a3f488eb7d2be875f8834e616cd2a37358b4852d',
  'linux-arm64': 'bd1b0db9f18b051026de8bf6cc1505f2510f14bbb7a8b9a4a91fff46c77454f5',
  'darwin-x64': 'bbb73e2a31135abe50a1f1cdb35030c42961df618e8ce9c60ae89f201540c5d9',
  'darwin-arm64': 'cca01b7ea35ad56e2a328d9ae596bf716bd22313ef63c7a761c88354457c2415',
};
/** Some 30 MB; a server that stops sending is not waited for any longer. */
const DOWNLOAD_WITHIN_MS = 15 * 60_000;
const GO_PACKAGE = `github.com/temporalio/cli/cmd/temporal@v${TEMPORAL_CLI}`;

/** The existing server program: on PATH, else in the cache. `undefined` if there is none. */
export function findTemporal(cache, env = process.env) {
  const onPath = which('temporal', env);
  if (onPath !== undefined) return { path: onPath, from: 'PATH' };
  const cached = join(cacheOf(cache), 'temporal');
  return existsSync(join(cacheOf(cache), '.complete.json')) && existsSync(cached)
    ? { path: cached, from: 'cache' }
    : undefined;
}

/** Go checks every module against its public checksum database, even if this machine's settings switch that off. */
function verifying(env) {
  return {
    GOFLAGS: '',
    GONOSUMDB: 'none',
    GOSUMDB: env.GOSUMDB && env.GOSUMDB !== 'off' ? env.GOSUMDB : 'sum.golang.org',
  };
}

/** Makes sure that there is a server program, or an external cluster. Returns what was found or done, in words. */
export async function makeTemporal(cache, env = process.env) {
  if (env.TEMPORAL_ADDRESS) return `${env.TEMPORAL_ADDRESS} ${await probe(env.TEMPORAL_ADDRESS)}`;
  const present = findTemporal(cache, env);
  if (present !== undefined) return `${versionOf(cache, present.path)} (${present.from})`;
  let how = 'downloaded';
  await makeDirectoryOnce(cacheOf(cache), async (aside) => {
    const closed = await download(aside);
    if (closed !== undefined) {
      how = `built by go, since the download failed: ${closed}`;
      await build(cache, aside, closed, env);
    }
    return { version: versionOf(cache, join(aside, 'temporal')) };
  });
  return `${versionOf(cache, join(cacheOf(cache), 'temporal'))} (${how})`;
}

function cacheOf(cache) {
  return join(cache, 'temporal', `${TEMPORAL_CLI}-${process.platform}-${process.arch}`);
}

/** Starting the program for its version takes 0.1 s: the answer is kept until the file changes. */
function versionOf(cache, path) {
  const { size, mtimeMs } = statSync(path);
  const stampPath = join(cache, 'stamps', 'temporal-version.json');
  const stamp = readJson(stampPath);
  if (stamp?.path === path && stamp.size === size && stamp.mtimeMs === mtimeMs) return stamp.version;
  const version = ask(path, ['--version']);
  if (version === undefined) throw new Error(`${path} --version failed: it is not a working Temporal CLI`);
  writeWhole(stampPath, JSON.stringify({ path, size, mtimeMs, version }));
  return version;
}

/** Returns, in words, whether something listens there. The set-up does not fail if a cluster is down. */
function probe(address) {
  const [host, port] = [
    address.slice(0, address.lastIndexOf(':')),
    Number(address.slice(address.lastIndexOf(':') + 1)),
  ];
  return new Promise((resolve) => {
    const socket = connect({ host, port: port || 7233, timeout: 3000 });
    const end = (words) => {
      socket.destroy();
      resolve(words);
    };
    socket.on('connect', () => end('is reachable'));
    socket.on('timeout', () => end('does not answer now'));
    socket.on('error', () => end('does not answer now'));
  });
}

/** Downloads the release's archive. Returns the reason if it fails (quickly without a network), else `undefined`. */
async function download(directory) {
  const pinned = ARCHIVES[`${process.platform}-${process.arch}`];
  if (pinned === undefined) return `no archive is pinned for ${process.platform} on ${process.arch}`;
  const bytes = await fetchArchive(archiveUrl());
  if (typeof bytes === 'string') return bytes;
  const hash = createHash('sha256').update(bytes).digest('hex');
  if (hash !== pinned)
    return `the download has the SHA-256 ${hash}, not ${pinned}: it is damaged or not genuine, and was not used`;
  const archive = join(directory, 'temporal.tar.gz');
  writeWhole(archive, bytes);
  await run('tar', ['-xzf', archive, '-C', directory, 'temporal']);
  rmSync(archive);
  return undefined;
}

function archiveUrl() {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const name = `temporal_cli_${TEMPORAL_CLI}_${process.platform}_${arch}.tar.gz`;
  return `https://github.com/temporalio/cli/releases/download/v${TEMPORAL_CLI}/${name}`;
}

/** The bytes of the archive, or the reason for a failed download, in words. */
async function fetchArchive(url) {
  try {
    const opening = new AbortController();
    const timer = setTimeout(() => opening.abort(new Error('no answer in 10 s')), 10_000);
    const signal = AbortSignal.any([opening.signal, AbortSignal.timeout(DOWNLOAD_WITHIN_MS)]);
    const response = await fetch(url, { signal }).finally(() => clearTimeout(timer));
    const announced = Number(response.headers.get('content-length'));
    if (!response.ok) return `HTTP ${response.status}`;
    const bytes = Buffer.from(await response.arrayBuffer());
    return announced > 0 && bytes.length !== announced
      ? `only ${bytes.length} of ${announced} bytes were received`
      : bytes;
  } catch (error) {
    return error.cause?.code ?? error.message;
  }
}

async function build(cache, directory, closed, env) {
  const bin = join(directory, 'gobin');
  mkdirSync(bin);
  try {
    await withGo(cache, env, (go) =>
      run(go, ['install', GO_PACKAGE], { env: { ...env, GOBIN: bin, ...verifying(env) } }),
    );
  } catch (error) {
    if (error instanceof HashMismatch) throw error;
    throw new MissingPrerequisites([
      {
        what: `Temporal's server (its download failed: ${closed}; go install: ${error.message})`,
        remedy: 'sudo apt-get install -y golang-go',
      },
    ]);
  }
  renameSync(join(bin, 'temporal'), join(directory, 'temporal'));
  rmSync(bin, { recursive: true });
}
