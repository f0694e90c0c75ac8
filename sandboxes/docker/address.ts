/**
 * Finds the address of the Docker daemon, by Docker's own rules and from the given environment. Only this module does
 * so, so that the client and `longhaul doctor` use the same daemon.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { SandboxImpossible } from '../sandbox.ts';

export interface DockerAddress {
  /** In the format of `DOCKER_HOST`: `unix:///var/run/docker.sock`, `tcp://localhost:2375`. */
  readonly host: string;
  /** The setting that the address comes from, for messages; absent if it is the default. */
  readonly by?: string;
  /** Folder with `ca.pem`, `cert.pem` and `key.pem`, for a daemon over TLS. */
  readonly certificates?: string;
}

const SYSTEM_SOCKET = '/var/run/docker.sock';
const UNIX = 'unix://';

const configurationFolder = (env: NodeJS.ProcessEnv): string =>
  env['DOCKER_CONFIG'] || join(env['HOME'] || homedir(), '.docker');

/** Docker Desktop's socket, else the system's, else that of the user's rootless daemon. */
function defaultHost(env: NodeJS.ProcessEnv): string {
  const runtime = env['XDG_RUNTIME_DIR'];
  const paths = [
    join(env['HOME'] || homedir(), '.docker', 'run', 'docker.sock'),
    SYSTEM_SOCKET,
    ...(runtime ? [join(runtime, 'docker.sock')] : []),
  ];
  return `${UNIX}${paths.find((path) => existsSync(path)) ?? SYSTEM_SOCKET}`;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    // As Docker does: an unreadable configuration selects no context.
    return undefined;
  }
}

interface ContextFile {
  readonly Endpoints?: { readonly docker?: { readonly Host?: string } };
}

function fromContext(name: string, by: string, env: NodeJS.ProcessEnv): DockerAddress {
  const folder = join(configurationFolder(env), 'contexts');
  // The name's digest is its folder's name.
  const id = createHash('sha256').update(name).digest('hex');
  const host = (readJson(join(folder, 'meta', id, 'meta.json')) as ContextFile | undefined)?.Endpoints?.docker?.Host;
  if (!host)
    throw new SandboxImpossible(
      `${by}: there is no Docker context ${JSON.stringify(name)} in ${folder}; ` +
        'choose one with docker context use, or set DOCKER_HOST',
    );
  const certificates = join(folder, 'tls', id, 'docker');
  return { host, by: `${by}, context ${name}`, ...(existsSync(certificates) ? { certificates } : {}) };
}

function named(env: NodeJS.ProcessEnv): DockerAddress | undefined {
  const given = env['DOCKER_HOST'];
  if (given) {
    const certificates = env['DOCKER_CERT_PATH'] || (env['DOCKER_TLS_VERIFY'] ? configurationFolder(env) : undefined);
    return { host: given, by: 'DOCKER_HOST', ...(certificates === undefined ? {} : { certificates }) };
  }
  const path = join(configurationFolder(env), 'config.json');
  const current = (readJson(path) as { readonly currentContext?: string } | undefined)?.currentContext;
  const [name, by] = env['DOCKER_CONTEXT'] ? [env['DOCKER_CONTEXT'], 'DOCKER_CONTEXT'] : [current, path];
  return !name || name === 'default' ? undefined : fromContext(name, by, env);
}

/**
 * `DOCKER_HOST`, else the selected context, else a socket. Errors: `SandboxImpossible` if the context does not exist.
 */
export function dockerAddress(env: NodeJS.ProcessEnv): DockerAddress {
  const address = named(env) ?? { host: defaultHost(env) };
  return address.host === UNIX ? { ...address, host: defaultHost(env) } : address;
}

/** The path of a local socket; `undefined` for a daemon over TCP or SSH. */
export const socketOf = ({ host }: DockerAddress): string | undefined => /^(?:unix|npipe):\/\/(.*)$/su.exec(host)?.[1];

/** The host as connections need it: an IPv6 address without brackets. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/u, '$1');

/** Parses an address as Docker does: without a protocol it is TCP. */
export function urlOf({ host, by }: DockerAddress): URL {
  const url = URL.parse(host.includes('//') ? host : `tcp://${host}`);
  if (url === null || url.hostname === '' || !['tcp:', 'http:', 'https:', 'ssh:'].includes(url.protocol))
    throw new SandboxImpossible(
      `${by ?? 'the address'}: ${JSON.stringify(host)} is not the address of a Docker daemon; ` +
        'use one such as unix:///var/run/docker.sock or tcp://localhost:2375',
    );
  return url;
}
