/** The client of this machine's daemon, at the address that `dockerAddress` finds; no other setting changes it. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import Docker from 'dockerode';

import { SandboxImpossible } from '../sandbox.ts';
import { type DockerAddress, dockerAddress, hostOf, socketOf, urlOf } from './address.ts';

/** Dockerode takes missing options from this process's environment. So all of them are given. */
const NOTHING = {
  host: undefined,
  port: undefined,
  protocol: undefined,
  ca: undefined,
  cert: undefined,
  key: undefined,
  socketPath: undefined,
};

/**
 * The client of the daemon that `dockerAddress` finds. Errors: `SandboxImpossible` if the address is invalid, or if the
 * certificates cannot be read.
 */
export function dockerClient(env: NodeJS.ProcessEnv): Docker {
  const address = dockerAddress(env);
  const socketPath = socketOf(address);
  return new Docker({
    ...NOTHING,
    ...(socketPath === undefined ? overNetwork(address, env) : { socketPath }),
  } as Docker.DockerOptions);
}

function agentOf({ SSH_AUTH_SOCK: agent }: NodeJS.ProcessEnv): Docker.DockerOptions {
  return agent ? { sshOptions: { agent } } : {};
}

function overNetwork(address: DockerAddress, env: NodeJS.ProcessEnv): Docker.DockerOptions {
  const url = urlOf(address);
  const host = hostOf(url);
  if (url.protocol === 'ssh:')
    return { host, port: url.port || 22, protocol: 'ssh', username: url.username, ...agentOf(env) };
  const { certificates } = address;
  const secure = certificates !== undefined || url.protocol === 'https:' || url.port === '2376';
  const port = url.port || (secure ? 2376 : 2375);
  return {
    host,
    port,
    protocol: secure ? 'https' : 'http',
    ...(certificates === undefined ? {} : keysIn(certificates)),
  };
}

function keysIn(folder: string): { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer } {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name));
    } catch (error) {
      throw new SandboxImpossible(
        `Docker's certificates cannot be read: ${error instanceof Error ? error.message : String(error)}; ` +
          'put ca.pem, cert.pem and key.pem there, or set DOCKER_CERT_PATH',
      );
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}
