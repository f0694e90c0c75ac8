/**
 * Hunts kinds of sandboxes in which a program from a folder of tools cannot ask its rollout's policy: a real sandbox of
 * bubblewrap, and by test/sandboxes/docker/tools.test.ts and its neighbour for Podman one of theirs.
 * Not asserted: what else a gateway does; see gateway-rollout.test.ts.
 */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { turnsOf } from '../../../store/read-records.ts';
import type { Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { saying, ScriptedEngine } from '../../activities/scripted-parts.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { useGatewayWorld } from './use-gateway-world.ts';

const toolsFolder = mkdtempSync(join(tmpdir(), 'longhaul-kit-'));
chmodSync(toolsFolder, 0o755);
afterAll(() => rmSync(toolsFolder, { recursive: true }));

const KIT = `
import json, os, urllib.request
def ask(text):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())["choices"][0]["message"]["content"]
`;
writeFileSync(join(toolsFolder, 'kit.py'), KIT);

const command = `python3 -c 'from kit import ask; print(ask("Six times seven?"), ask("And eight?"))'`;
const task: Task = {
  messages: [{ role: 'user', content: 'Do it.' }],
  tools: [],
  agent: { type: 'external', options: { command, gateway: true } },
  sandboxes: { main: { workdir: '/work', files: [], env: { PYTHONPATH: '/opt/tools' }, toolsFolder } },
  grade: async (_ctx, { answer }) =>
    await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: answer.trim() }),
};
defineEnvironment({
  name: 'kit',
  open: async () =>
    await Promise.resolve({ digest: '1', splits: { train: 1 }, load: async () => await Promise.resolve(task) }),
});

const answers = ['It is 42.', 'It is 48.'].map((text) => saying(text));
const engine = new ScriptedEngine();
engine.answers = [...answers];
const { provider } = await openBench({ guardTools: () => undefined });
const world = useGatewayWorld(provider, () => engine);

it('a program of a folder of tools asks the policy: its rollout is graded, its turns have the sampled ids', async () => {
  const policy = { uri: 'file:///p', version: 0 };
  const handle = await world.start('rollout', 'kit', { task: 'kit-train-0', policy });
  const result = (await handle.result()) as RolloutResult;
  expect(result).toMatchObject({ status: 'graded', reward: 1, finish: 'answer', turns: 2, attempt: 1 });
  const turns = await turnsOf(world.store, { rollout: 'kit', attempt: 1 });
  expect(turns.map(({ sampled }) => sampled)).toEqual(answers.map(({ tokens }) => tokens));
});
