/** Ports that are free now. The caller starts its server at once, and chooses again if the port was taken meanwhile. */

import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const LOOPBACK = '127.0.0.1';

/** True if `port` of the loopback address `host` can be bound now. */
export async function isPortFree(port: number, host = LOOPBACK): Promise<boolean> {
  return (await bind(port, host)) !== undefined;
}

/** Below the ports that systems give to outgoing connections, one of which could take a port that was just chosen. */
const QUIET = { from: 20_000, to: 32_767 };
const QUIET_TRIES = 20;

/** The first of `preferred` that is free and not taken, else any free port. */
export async function choosePort(
  preferred: readonly number[],
  isTaken: (port: number) => boolean = () => false,
): Promise<number> {
  const quiet = Array.from({ length: QUIET_TRIES }, () => randomInt(QUIET.from, QUIET.to + 1));
  for (const port of [...preferred, ...quiet]) {
    if (!isTaken(port) && (await isPortFree(port))) return port;
  }
  for (;;) {
    const port = await bind(0);
    if (port !== undefined && !isTaken(port)) return port;
  }
}

/**
 * A random one of the sixteen million loopback addresses, with a free port: no web page finds it by trying. If the
 * system has only one loopback address, that one.
 */
export async function chooseHidden(): Promise<{ readonly host: string; readonly port: number }> {
  for (let tries = 0; tries < QUIET_TRIES; tries += 1) {
    const host = `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(2, 255)}`;
    const port = randomInt(QUIET.from, QUIET.to + 1);
    if (await isPortFree(port, host)) return { host, port };
  }
  return { host: LOOPBACK, port: await choosePort([]) };
}

function bind(port: number, host = LOOPBACK): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : undefined));
    });
  });
}
