/** A world whose sandboxes have a door to the recording gateway, and whose policy is a scripted engine. */

import { Client, Connection } from '@temporalio/client';
import { afterAll } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { type GenerateDeps, generateTurn } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { HostProvider } from '../../../sandboxes/supervised/provider.ts';
import { openDoor } from '../../../servers/gateway/serve-door.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import type { GenerateRequest } from '../../../trainer/generate-request.ts';
import { characterTokenizer, type ScriptedEngine } from '../../activities/scripted-parts.ts';
import { type StoreWorld, useStoreWorld } from '../../support/use-store-world.ts';

/** `engine` is asked for at each call: a test may set another one. */
export function useGatewayWorld(provider: HostProvider, engine: () => ScriptedEngine): StoreWorld {
  const tokenizer = characterTokenizer();
  /**
   * Workers have a native connection. This one has none of the retries of the client's own: one that waits while its
   * connection is closed throws where nothing catches it. The gateway repeats its calls itself.
   */
  let connection: Connection | undefined;
  afterAll(async () => await connection?.close());
  const client = () => {
    connection ??= Connection.lazy({ address: world.server.address, interceptors: [] });
    return new Client({ connection });
  };
  const world = useStoreWorld((over, scripted) => {
    const parts = { store: over, tasks: new TaskLoader(over), provider, host: 'test-host' };
    const backends = embeddedOnly({
      engine: { generate: (request: GenerateRequest) => engine().generate(request) } as ScriptedEngine,
      tokenizerOf: async () => await Promise.resolve(tokenizer),
      digestOf: async () => await Promise.resolve('files'),
    });
    return {
      init: createInitActivities({ ...parts, maxLiveSandboxes: 9, sandboxTtlSeconds: 60 }),
      agentRun: createAgentRunActivities({
        ...parts,
        sandboxTtlSeconds: 60,
        openGateway: (sandbox, attempt) => openDoor(sandbox, attempt, { store: over, client: client() }),
      }),
      reward: createRewardActivities(parts),
      gpu: {
        ...scripted.gpu,
        generate: (input) =>
          generateTurn(
            input,
            { ...parts, endpoints: new EndpointClient(), ...backends } as unknown as GenerateDeps,
            new AbortController().signal,
          ),
      },
    };
  });
  return world;
}
