/** A Temporal server that refuses everybody at once: where none listens, a client waits five seconds for one. */

import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';

export interface RefusingServer {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  stop(): Promise<void>;
}

/** gRPC's status for somebody who may not ask. */
const PERMISSION_DENIED = '7';

export async function startRefusingServer(): Promise<RefusingServer> {
  const sessions = new Set<{ destroy(): void }>();
  const server = createServer();
  server.on('session', (session) => void sessions.add(session));
  server.on('stream', (stream) => {
    stream.respond(
      {
        ':status': 200,
        'content-type': 'application/grpc',
        'grpc-status': PERMISSION_DENIED,
        'grpc-message': 'nobody may',
      },
      { endStream: true },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
