/**
 * The credentials for a registry, from `docker login`: in Docker's configuration file or in a credential helper. They
 * are never stored, logged or written into an error.
 */

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** In the daemon's format. */
export interface RegistryAuth {
  readonly serveraddress: string;
  readonly username?: string;
  readonly password?: string;
  readonly identitytoken?: string;
}

interface DockerConfig {
  readonly auths?: Readonly<Record<string, { readonly auth?: string; readonly identitytoken?: string }>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
}

const HUB = 'index.docker.io';
/** Docker Hub's name in the file, for historical reasons. */
const HUB_ADDRESS = 'https://index.docker.io/v1/';
const HUB_NAMES = new Set(['docker.io', HUB, 'registry-1.docker.io']);
const HELPED_WITHIN_MS = 10_000;

/** The host of a reference or of an address in the file: `registry.example:5000`. */
const hostOf = (address: string): string => {
  const host = address.replace(/^https?:\/\//u, '').replace(/\/.*$/u, '');
  return HUB_NAMES.has(host) ? HUB : host;
};

/** The registry of an image's reference. Without a host it is Docker Hub. */
export function registryOf(reference: string): string {
  const [first = '', ...rest] = reference.split('/');
  const isHost = rest.length > 0 && (/[.:]/u.test(first) || first === 'localhost');
  return isHost ? hostOf(first) : HUB;
}

async function readConfig(env: NodeJS.ProcessEnv): Promise<DockerConfig | undefined> {
  const path = join(env['DOCKER_CONFIG'] || join(env['HOME'] || homedir(), '.docker'), 'config.json');
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DockerConfig;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    // Without the parser's message: it quotes the content.
    throw new Error(
      `${path} cannot be read, so no credentials are sent: fix it, or set DOCKER_CONFIG to another folder`,
    );
  }
}

function readAnswer(printed: string): { readonly Username?: string; readonly Secret?: string } {
  try {
    return JSON.parse(printed) as { Username?: string; Secret?: string };
  } catch {
    return {};
  }
}

/** Runs `docker-credential-NAME get`. Returns `undefined` if the helper has no credentials for this registry. */
async function askHelper(name: string, address: string, env: NodeJS.ProcessEnv): Promise<RegistryAuth | undefined> {
  if (!/^[\w.-]+$/u.test(name)) return undefined;
  const printed = await new Promise<string>((resolve) => {
    const child = execFile(`docker-credential-${name}`, ['get'], { env, timeout: HELPED_WITHIN_MS }, (error, stdout) =>
      resolve(error ? '' : stdout),
    );
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(`${address}\n`);
  });
  const { Username = '', Secret = '' } = readAnswer(printed);
  if (Secret === '') return undefined;
  return Username === '<token>'
    ? { serveraddress: address, identitytoken: Secret }
    : { serveraddress: address, username: Username, password: Secret };
}

function fromFile({ auths = {} }: DockerConfig, host: string, address: string): RegistryAuth | undefined {
  const entry = Object.entries(auths).find(([key]) => hostOf(key) === host)?.[1];
  if (entry?.identitytoken) return { serveraddress: address, identitytoken: entry.identitytoken };
  if (!entry?.auth) return undefined;
  const text = Buffer.from(entry.auth, 'base64').toString('utf8');
  const at = text.indexOf(':');
  return at < 0
    ? undefined
    : { serveraddress: address, username: text.slice(0, at), password: text.slice(at + 1).replace(/\0+$/u, '') };
}

/**
 * The credentials for the registry of `reference`; `undefined` if there was no login. Errors: one with the path of the
 * configuration, if it cannot be read.
 */
export async function credentialsFor(reference: string, env: NodeJS.ProcessEnv): Promise<RegistryAuth | undefined> {
  const config = await readConfig(env);
  if (config === undefined) return undefined;
  const host = registryOf(reference);
  const address = host === HUB ? HUB_ADDRESS : host;
  const helper =
    Object.entries(config.credHelpers ?? {}).find(([key]) => hostOf(key) === host)?.[1] ?? config.credsStore;
  return (helper ? await askHelper(helper, address, env) : undefined) ?? fromFile(config, host, address);
}
