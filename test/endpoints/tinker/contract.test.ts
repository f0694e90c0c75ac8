/**
 * Hunts a Tinker server that the backend `tinker` does not understand: servers of today, those of before protobuf, and
 * those that behave as SkyRL's. With LONGHAUL_TINKER_POLICY (a `tinker:http…` URI) also the server that it names.
 */

import path from 'node:path';
import { afterAll } from 'vitest';
import { bundleModules } from '../../../modules/bundle.ts';
import { importBundle } from '../../../modules/import-bundle.ts';
import { tinkerBackend } from '../../../endpoints/tinker/backend.ts';
import { tinkerUri } from '../../../protocol/tinker-uri.ts';
import { backendNamed } from '../../../trainer/backends/registry.ts';
import type { BackendDefinition } from '../../../trainer/backends/definition.ts';
import { describeBackend } from '../../trainer/backends/contract.ts';
import { qwen3Dir } from '../../trainer/tiny-policy.ts';
import { type ServerManners, TinkerTestServer } from './tinker-server.ts';

const servers: TinkerTestServer[] = [];
afterAll(async () => {
  for (const server of servers) await server[Symbol.asyncDispose]();
});

async function bigram(): Promise<BackendDefinition> {
  const bundle = await bundleModules([path.join(import.meta.dirname, '../../../examples/backends/bigram.ts')]);
  await importBundle(bundle);
  const definition = backendNamed('bigram', bundle.digest);
  if (definition === undefined) throw new Error('the example defines no backend');
  return definition;
}

const tinker = tinkerBackend as unknown as BackendDefinition;

function describeServer(name: string, manners: ServerManners, reduction?: 'sequence-mean'): void {
  describeBackend(name, async (dir) => {
    const base = `bigram:${path.join(dir, 'states')}?tokenizer=${qwen3Dir}`;
    const server = await TinkerTestServer.start(await bigram(), base, manners);
    servers.push(server);
    const { baseUrl } = server;
    const given = { baseUrl, model: 'tiny', tokenizer: qwen3Dir, ...(reduction && { reduction }) };
    return { definition: tinker, base: tinkerUri(given) };
  });
}

describeServer('tinker', {});
describeServer('tinker with JSON', { jsonPasses: true });
describeServer('tinker as SkyRL has it', { likeSkyRl: true }, 'sequence-mean');

const given = process.env['LONGHAUL_TINKER_POLICY'];
if (given !== undefined) describeBackend(`tinker at ${given}`, () => Promise.resolve({ definition: tinker, base: given }));
