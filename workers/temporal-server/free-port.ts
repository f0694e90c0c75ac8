/** Ports that can be bound at this moment; whoever takes one starts at once, and asks again when it was lost meanwhile. */

import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Whether `port` of the loopback address can be bound now. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await bind(port)) !== undefined;
}

/** Below those that systems give to outgoing connections, each of which takes one without asking whether somebody chose it. */
const QUIET = { from: 20_000, to: 32_767 };
const QUIET_TRIES = 20;

/** The first of `preferred` that is free and not taken, else any such port. */
export async function choosePort(preferred: readonly number[], isTaken: (port: number) => boolean = () => false): Promise<number> {
  const quiet = Array.from({ length: QUIET_TRIES }, () => randomInt(QUIET.from, QUIET.to + 1));
  for (const port of [...preferred, ...quiet]) {
    if (!isTaken(port) && (await isPortFree(port))) return port;
  }
  for (;;) {
    const port = await bind(0);
    if (port !== undefined && !isTaken(port)) return port;
  }
}

function bind(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : undefined));
    });
  });
}
