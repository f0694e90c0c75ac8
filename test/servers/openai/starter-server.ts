/** A server over real HTTP, with the starter policy in the embedded engine, for tests of what its clients see. */

import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import { renderPrompt } from '../../../agents/render-conversation.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { Engine } from '../../../trainer/engine.ts';
import type { ChatModel } from '../../../servers/openai/answer-turn.ts';
import { ApiServer, type ApiServerOptions } from '../../../servers/openai/api-server.ts';
import { loadTokenizer, type Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

export const starter = join(packageRoot, 'examples', 'starter');

export type Json = Record<string, never> & {
  choices: Array<Record<string, never>>;
  usage: Record<string, number>;
  error: Record<string, unknown>;
};

export const tool = {
  type: 'function',
  function: {
    name: 'search',
    description: 'finds text',
    parameters: { type: 'object', properties: { query: { type: 'string' } } },
  },
};

/** The starter's engine and tokenizer for a file of tests. A server is closed after its test. */
export function useStarterServer() {
  let engine: EmbeddedEngine;
  let tokenizer: Tokenizer;
  let server: ApiServer | undefined;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(starter);
    engine = await createEmbeddedEngine();
  });
  afterAll(() => engine?.close());
  afterEach(async () => {
    await server?.close(0);
    server = undefined;
  });

  async function serving(over: Partial<ApiServerOptions> & { engine?: Engine } = {}) {
    const { engine: other, ...options } = over;
    const model: ChatModel = {
      name: 'starter',
      engine: other ?? engine,
      policy: { dir: starter, version: 0 },
      tokenizer,
      contextTokens: 1024,
    };
    server = await ApiServer.start({ model, host: '127.0.0.1', port: 0, ...options });
    const { baseUrl } = server;
    const ask = async (path: string, body?: object, headers: Record<string, string> = {}) => {
      const init = body
        ? { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }
        : { headers };
      const response = await fetch(new URL(path, `${baseUrl}/`), init);
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        text,
        json: (text.startsWith('{') ? JSON.parse(text) : {}) as Json,
      };
    };
    const chunksOf = async (path: string, body: object) => {
      const { text, headers } = await ask(path, { ...body, stream: true });
      expect(headers.get('content-type')).toBe('text/event-stream');
      const events = text
        .trim()
        .split('\n\n')
        .map((event) => event.replace(/^data: /, ''));
      expect(events.pop()).toBe('[DONE]');
      return events.map((event) => JSON.parse(event) as Json);
    };
    return { baseUrl, ask, chunksOf };
  }

  /** A first prompt of a real task, as ids. */
  function taskPrompt() {
    const messages = [{ role: 'user' as const, content: makeProblem('swe-mini-held-out-0').issue }];
    return { messages, ids: renderPrompt(tokenizer, messages, []) };
  }

  /** An engine that returns the ids of a text one after the other, over any number of calls. The prompt is one token. */
  const saying = (text: string): Engine => ({
    generate: async ({ tokens, sampling: { maxTokens } }) => {
      const next = tokenizer.encode(text).slice(tokens.length - 1, tokens.length - 1 + maxTokens);
      return { tokens: next, logprobs: next.map(() => -1), finishReason: 'length' };
    },
    update: () => Promise.reject(new Error('no')),
    close: async () => undefined,
  });

  return {
    get engine() {
      return engine;
    },
    get tokenizer() {
      return tokenizer;
    },
    get server() {
      return server;
    },
    serving,
    taskPrompt,
    saying,
  };
}
