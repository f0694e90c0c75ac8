/** Turns of a policy behind a loopback server: for tests of endpoints. Call it once in a test file. */
import { afterEach } from 'vitest';
import { generateTurn } from '../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { resolvePolicy } from '../../workflows/rollout/resolve-policy.ts';
import type { EndpointPolicy } from '../../protocol/policy.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { type Handler, type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';
import { type Served, serveEngine } from '../support/endpoint/serve-engine.ts';
import { call, characterTokenizer, finishCall, saying, ScriptedEngine } from './scripted-parts.ts';
import { turnInput, useWorld } from './world.ts';

export function useEndpoint() {
  const world = useWorld();
  const { signal } = new AbortController();
  let server: LoopbackServer | undefined;
  afterEach(() => server?.close());

  const said = [saying(call('ls')), saying('I think.'), saying(finishCall)];

  async function serving(handler: Handler, settings: object = {}) {
    server = await startLoopback(handler);
    const { baseUrl } = server;
    const endpoint = { baseUrl, model: 'm', maxTries: 1, ...settings };
    const policy = resolvePolicy({ endpoint, version: 3 }, (field) => {
      throw new Error(field);
    }) as EndpointPolicy;
    const deps = { ...world.now.deps, endpoints: new EndpointClient({}) };
    const generate = (turn: number, over: Partial<GenerateInput> = {}) =>
      generateTurn(turnInput(turn, { policy, ...over }), deps, signal);
    return { server, policy, generate };
  }

  function engineServer(over: Partial<Served> = {}): { handler: Handler; engine: ScriptedEngine } {
    const engine = new ScriptedEngine();
    engine.answers = [...said];
    const served = {
      engine,
      tokenizer: characterTokenizer(),
      policy: { dir: '/served', version: 0 },
      model: 'm',
      owner: 'vllm' as const,
      ...over,
    };
    return { handler: serveEngine(served), engine };
  }

  const ids = { mode: 'tokens', tokenizer: '/t', protocol: 'vllm' };
  const recordOf = (turn: number) => world.now.store.get<GenerateRecord>(keys.generate(turnInput(turn), turn));
  const answered = (turn: number, ...contents: string[]) =>
    world.now.store.putOnce<ActRecord>(keys.act(turnInput(turn), turn), {
      messages: contents.map((content) => ({ role: 'tool', name: 'bash', content })),
    });
  /** A detection samples one token first. */
  const probed = (engine: ScriptedEngine) =>
    void engine.answers.unshift({ tokens: [7], logprobs: [-1], finishReason: 'length' });

  return { signal, world, said, serving, engineServer, ids, recordOf, answered, probed };
}
