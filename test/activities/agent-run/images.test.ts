/**
 * Hunts images that are in records as bytes, that a policy gets which cannot take them, or that outlive their rollout.
 * Real bubblewrap sandboxes; the server of the policy is a loopback stand-in.
 */
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { defineTool } from '../../../agents/tools/registry.ts';
import { messageText } from '../../../cli/train/format.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import { promptTokensAbout } from '../../../endpoints/chat.ts';
import type { EndpointPolicy } from '../../../protocol/policy.ts';
import type { ActRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { ObjectRef } from '../../../protocol/stages.ts';
import { openPruner, sqliteUrl } from '../../../store/open-store.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { resolvePolicy } from '../../../workflows/rollout/resolve-policy.ts';
import { type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { attemptOf, inActivity, turnInput, useWorld } from '../world.ts';

const bench = await openBench();
const world = useWorld();
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
let drawn: readonly Uint8Array[];
let put: ObjectRef | undefined;
let server: LoopbackServer | undefined;
beforeEach(() => {
  [drawn, put] = [[PNG], undefined];
});
afterEach(() => server?.close());

defineTool({
  name: 'draw',
  description: 'Draws it.',
  parameters: {},
  required: [],
  runs: 'worker',
  effect: 'none',
  images: true,
  run: async (_args, { objects }) => {
    put = await objects.put(Buffer.from('a note'));
    return { text: 'A dot.', images: drawn };
  },
});
defineEnvironment({
  name: 'drawing',
  open: async () =>
    await Promise.resolve({
      digest: 'drawing',
      splits: { train: 1000 },
      load: async () =>
        await Promise.resolve({
          messages: [{ role: 'user' as const, content: 'Draw.' }],
          tools: ['draw', 'view_image', 'finish'],
          sandboxes: {
            main: {
              workdir: '/work',
              files: [
                { path: 'dot.png', content: PNG },
                { path: 'no.png', content: 'x' },
              ],
              env: {},
            },
          },
          grade: async () => await Promise.resolve({ code: 'graded' as const, reward: 1, passed: true, reason: '' }),
        }),
    }),
});

let rollouts = 0;
async function begun(settings: object) {
  const { store, deps } = world.now;
  rollouts += 1;
  const attempt = { ...attemptOf(0, 70 + rollouts), task: 'drawing-train-0' };
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider: bench.provider, host: 'here', maxLiveSandboxes: 9, sandboxTtlSeconds: 60 };
  const [init, agent] = [createInitActivities(place), createAgentRunActivities(place)];
  const asked = [
    { name: 'draw', arguments: '{}' },
    { name: 'view_image', arguments: '{"path":"dot.png"}' },
    { name: 'view_image', arguments: '{"path":"no.png"}' },
  ];
  const tool_calls = asked.map((call, i) => ({ id: `c${i}`, type: 'function', function: call }));
  const body = { choices: [{ finish_reason: 'tool_calls', message: { role: 'assistant', content: '', tool_calls } }] };
  server = await startLoopback(() => ({ body }));
  const endpoint = { baseUrl: server.baseUrl, model: 'm', maxTries: 1, ...settings };
  const policy = resolvePolicy({ endpoint, version: 0 }, (field, _, remedy) => {
    throw new Error(`${field}: ${remedy}`);
  }) as EndpointPolicy;
  const own = { ...deps, tasks, endpoints: new EndpointClient({}) };
  const { sandbox } = await inActivity(() => init.prepare(attempt));
  return {
    attempt,
    generate: (turn: number) =>
      generateTurn({ ...turnInput(turn), ...attempt, policy }, own, new AbortController().signal),
    act: (turn: number) => inActivity(() => agent.agentRun({ ...attempt, ...sandbox!, turn, toolTimeoutSeconds: 20 })),
    acted: async (turn: number) => (await store.get<ActRecord>(keys.act(attempt, turn)))!.messages,
    lastRequest: () => server!.asked.at(-1)!.body as { messages: Array<{ role: string; content: unknown }>; tools: [] },
  };
}

describe('an image', () => {
  it('of a tool in the worker or in the sandbox is a reference in every record, with its type and size', async () => {
    const { generate, act, acted, attempt } = await begun({ mode: 'chat' });
    await generate(1);
    await act(1);
    const [mine, seen, refused] = await acted(1);
    const image = {
      mediaType: 'image/png',
      width: 1,
      height: 1,
      bytes: PNG.length,
      ref: expect.stringMatching(/^sha256:/u),
    };
    expect(mine).toEqual({ role: 'tool', name: 'draw', content: 'A dot.', images: [image] });
    expect(seen).toMatchObject({ content: 'dot.png: image/png, 1×1 pixels', images: [image] });
    expect(refused?.content).toMatch(/must be a PNG, JPEG or WebP/u);
    const [{ value } = { value: undefined }] = await world.now.store.list<{ artifact: ObjectRef }>('object:');
    expect(value?.artifact).toBeDefined();
    expect(JSON.stringify(await world.now.store.list(`answer:${attempt.rollout}`))).not.toContain(
      PNG.toString('base64'),
    );
    expect(messageText(mine!)).toMatch(/^A dot\.\n\[image\/png 1×1, sha256:[0-9a-f]{12}\]$/u);
  });

  it('is sent to an endpoint that takes images, after the answers, and counts a fixed number of tokens', async () => {
    const { generate, act, lastRequest } = await begun({ mode: 'chat', images: true });
    await generate(1);
    await act(1);
    await generate(2);
    const { messages } = lastRequest();
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'tool', 'user']);
    const url = `data:image/png;base64,${PNG.toString('base64')}`;
    expect(messages.at(-1)?.content).toEqual([
      { type: 'text', text: 'The images of the answers above, in order.' },
      { type: 'image_url', image_url: { url } },
      { type: 'image_url', image_url: { url } },
    ]);
    const about = promptTokensAbout({
      messages: [{ role: 'user', content: [{ image_url: { url: `data:image/png;base64,${'A'.repeat(4_000_000)}` } }] }],
      tools: [],
    });
    expect(about).toBeLessThan(2000);
  });

  it('is text for any other policy, and its bytes are nowhere in the request', async () => {
    const { generate, act, lastRequest } = await begun({ mode: 'chat' });
    await generate(1);
    await act(1);
    await generate(2);
    const { messages } = lastRequest();
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'tool']);
    expect(messages[2]?.content).toBe('A dot.');
    expect(JSON.stringify(messages)).not.toMatch(/base64|sha256/u);
  });

  it('needs the mode chat', async () => {
    await expect(begun({ mode: 'auto', images: true })).rejects.toThrow(/policy\.endpoint\.images: leave it out/u);
  });

  it('that is none, too large, or one too many is left out, and the answer says so', async () => {
    drawn = [Buffer.from('x'), Buffer.concat([PNG, Buffer.alloc(5 << 20)]), ...Array.from({ length: 8 }, () => PNG)];
    const { generate, act, acted } = await begun({ mode: 'chat' });
    await generate(1);
    await act(1);
    const [mine] = await acted(1);
    expect(mine).toMatchObject({ images: Array.from({ length: 6 }, () => expect.anything() as unknown) });
    expect(mine?.content.split('\n')).toEqual([
      'A dot.',
      '[image 1 is left out: it is no PNG, JPEG or WebP]',
      expect.stringMatching(/^\[image 2 is left out: it has \d+ bytes, at most 4194304 are taken\]$/u),
      '[image 9 is left out: an answer has at most 8]',
      '[image 10 is left out: an answer has at most 8]',
    ]);
  });

  it('is pruned with its rollout, like every object of its tools', async () => {
    const { generate, act, attempt } = await begun({ mode: 'chat' });
    await generate(1);
    await act(1);
    const { store } = world.now;
    expect(Buffer.from(await store.getObject(put!)).toString()).toBe('a note');
    const pruner = await openPruner(sqliteUrl(join(world.now.dir, 'store')));
    expect(pruner.deleteNaming([`object:${attempt.rollout}#`], ['collect:', 'ask:', 'object:'])).toMatchObject({
      objects: 2,
    });
    pruner.close();
    await expect(store.getObject(put!)).rejects.toThrow();
  });
});
