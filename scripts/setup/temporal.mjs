/** Temporal's server program: the cluster or binary that is there already, else one that is downloaded or built once. */

import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { ask, MissingPrerequisites, run, which } from './command.mjs';
import { makeDirectoryOnce, readJson, writeWhole } from './files.mjs';
import { withGo } from './go-toolchain.mjs';

/** The last version that `go install` builds: later ones carry a replace directive. */
export const TEMPORAL_CLI = '1.5.1';
const GO_PACKAGE = `github.com/temporalio/cli/cmd/temporal@v${TEMPORAL_CLI}`;

/** The server program that is here now: on PATH, else in the cache; `undefined` when neither. */
export function findTemporal(cache, env = process.env) {
  const onPath = which('temporal', env);
  if (onPath !== undefined) return { path: onPath, from: 'PATH' };
  const cached = join(cacheOf(cache), 'temporal');
  return existsSync(join(cacheOf(cache), '.complete.json')) && existsSync(cached) ? { path: cached, from: 'cache' } : undefined;
}

/** Sees to it that there is a server to start, or one to reach. Returns what was found or done, in words. */
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

/** Starting it to ask costs 0.1 s: the answer is kept for the file as it is. */
function versionOf(cache, path) {
  const { size, mtimeMs } = statSync(path);
  const stampPath = join(cache, 'stamps', 'temporal-version.json');
  const stamp = readJson(stampPath);
  if (stamp?.path === path && stamp.size === size && stamp.mtimeMs === mtimeMs) return stamp.version;
  const version = ask(path, ['--version']);
  if (version === undefined) throw new Error(`${path} --version failed: it is no working Temporal CLI`);
  writeWhole(stampPath, JSON.stringify({ path, size, mtimeMs, version }));
  return version;
}

/** Whether something listens there, in words; set-up does not fail when a cluster is only down for now. */
function probe(address) {
  const [host, port] = [address.slice(0, address.lastIndexOf(':')), Number(address.slice(address.lastIndexOf(':') + 1))];
  return new Promise((resolve) => {
    const socket = connect({ host, port: port || 7233, timeout: 3000 });
    const end = (words) => { socket.destroy(); resolve(words); };
    socket.on('connect', () => end('is reachable'));
    socket.on('timeout', () => end('does not answer now'));
    socket.on('error', () => end('does not answer now'));
  });
}

/** The official archive. Returns why it cannot be had, quickly where the network is closed; else `undefined`. */
async function download(directory) {
  const archive = join(directory, 'temporal.tar.gz');
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const url = `https://temporal.download/cli/archive/v${TEMPORAL_CLI}?platform=${process.platform}&arch=${arch}`;
  try {
    const opening = new AbortController();
    const timer = setTimeout(() => opening.abort(new Error('no answer in 10 s')), 10_000);
    const response = await fetch(url, { signal: opening.signal });
    clearTimeout(timer);
    const announced = Number(response.headers.get('content-length'));
    if (!response.ok) return `HTTP ${response.status}`;
    const bytes = Buffer.from(await response.arrayBuffer());
    if (announced > 0 && bytes.length !== announced) return `${bytes.length} of ${announced} bytes came`;
    writeWhole(archive, bytes);
    await run('tar', ['-xzf', archive, '-C', directory, 'temporal']);
    rmSync(archive);
    return versionOfDownload(directory);
  } catch (error) {
    return error.cause?.code ?? error.message;
  }
}

function versionOfDownload(directory) {
  const version = ask(join(directory, 'temporal'), ['--version']);
  return version?.includes(TEMPORAL_CLI) ? undefined : `the archive holds ${version ?? 'no working program'}`;
}

async function build(cache, directory, closed, env) {
  const bin = join(directory, 'gobin');
  mkdirSync(bin);
  try {
    await withGo(cache, env, (go) => run(go, ['install', GO_PACKAGE], { env: { ...env, GOBIN: bin, GOFLAGS: '' } }));
  } catch (error) {
    throw new MissingPrerequisites([{
      what: `Temporal's server (its download failed: ${closed}; go install: ${error.message})`,
      remedy: 'sudo apt-get install -y golang-go',
    }]);
  }
  renameSync(join(bin, 'temporal'), join(directory, 'temporal'));
  rmSync(bin, { recursive: true });
}
