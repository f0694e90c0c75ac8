/**
 * Agents of other projects, unchanged, from PyPI: each runs in a bubblewrap sandbox that sees its packages, and asks the
 * policy through the gateway; its rollout is graded, and each of its calls is a turn with the ids that were sampled.
 * `node test/interop/agents.ts` fetches the packages and runs this; `npm test` does not, since they are some gigabyte.
 * Not asserted: how good they are; a scripted engine answers.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RolloutResult } from '../../protocol/rollout.ts';
import { createBubblewrapProvider } from '../../sandboxes/bubblewrap/provider.ts';
import { turnsOf } from '../../store/read-records.ts';
import type { Task } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { mergeTransitions, transitionsOf } from '../../trainer/data/merge-transitions.ts';
import { saying, ScriptedEngine } from '../activities/scripted-parts.ts';
import { openBench } from '../sandboxes/harness.ts';
import { useGatewayWorld } from '../workflows/rollout/use-gateway-world.ts';

/** Has a folder of packages for each agent. */
const PACKAGES = process.env['LONGHAUL_INTEROP_AGENTS'];

interface Agent {
  readonly name: string;
  readonly program: string;
  /** What the policy says to the first call, and to the second. */
  readonly answers: readonly [string, string];
  /** True if it sends its history back as it got it: both calls are then one sequence. */
  readonly continues: boolean;
}

const call = (name: string, argument: string, value: string): string =>
  `<function=${name}>\n<parameter=${argument}>${value}</parameter>\n</function>`;
const SIX_TIMES_SEVEN = call('bash', 'command', 'echo $((6 * 7)) | tee product');
const SUBMIT = call('bash', 'command', 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat product');

const AGENTS: readonly Agent[] = [
  { name: 'mini-swe-agent', program: 'mini_swe_agent.py', answers: [SIX_TIMES_SEVEN, SUBMIT], continues: true },
  { name: 'openai-agents', program: 'openai_agents.py', answers: [SIX_TIMES_SEVEN, 'It is 42.'], continues: true },
  {
    name: 'smolagents',
    program: 'smolagents_tools.py',
    answers: [SIX_TIMES_SEVEN, call('final_answer', 'answer', '42')],
    continues: false,
  },
];

let engine = new ScriptedEngine();
const bench = await openBench();
const provider = createBubblewrapProvider({
  stateDir: bench.stateDir,
  supervisorPath: bench.supervisorPath,
  guardTools: () => undefined,
});

function taskOf({ name, program }: Agent): Task {
  const content = readFileSync(join(import.meta.dirname, 'agents', program));
  const env = {
    PYTHONPATH: '/opt/tools',
    MSWEA_SILENT_STARTUP: '1',
    MSWEA_GLOBAL_CONFIG_DIR: '/tmp/mini',
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  };
  const limits = { memoryMiB: 1024, processes: 64, diskMiB: 64 };
  const toolsFolder = join(PACKAGES ?? '', name);
  return {
    messages: [{ role: 'user', content: 'What is six times seven?' }],
    tools: [],
    agent: {
      type: 'external',
      options: { command: `python3 ${program} 'What is six times seven?'`, gateway: true, timeoutSeconds: 240 },
    },
    sandboxes: { main: { workdir: '/work', files: [{ path: program, content }], env, limits, toolsFolder } },
    async collect(ctx) {
      const found = await (await ctx.sandbox()).read('product', 1000);
      return found.kind === 'file' ? found.content : new Uint8Array();
    },
    async grade(_ctx, { answer, artifact }) {
      const worked = Buffer.from(artifact).toString().trim() === '42';
      const passed = worked && answer.includes('42');
      return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason: answer.slice(-2000) });
    },
  };
}

defineEnvironment({
  name: 'third-party',
  open: async () =>
    await Promise.resolve({
      digest: '1',
      splits: { train: AGENTS.length },
      load: async (_split: string, index: number) => await Promise.resolve(taskOf(AGENTS[index]!)),
    }),
});

const world = useGatewayWorld(provider, () => engine);

describe('an agent of another project', () => {
  for (const [index, agent] of AGENTS.entries())
    it(`${agent.name} is graded, and trained on in the sampled ids`, async () => {
      engine = new ScriptedEngine();
      engine.answers = agent.answers.map((text) => saying(text));
      const task = `third-party-train-${index}`;
      const handle = await world.start('rollout', agent.name, { task, policy: { uri: 'file:///p', version: 0 } });
      const result = (await handle.result()) as RolloutResult;
      expect(result).toMatchObject({ status: 'graded', reward: 1, finish: 'answer', turns: 2, attempt: 1 });
      const turns = await turnsOf(world.store, { rollout: agent.name, attempt: 1 });
      expect(turns.map(({ sampled }) => sampled)).toEqual(agent.answers.map((text) => saying(text).tokens));
      const merged = mergeTransitions(transitionsOf(turns));
      expect(merged).toHaveLength(agent.continues ? 1 : 2);
      const trained = merged.flatMap(({ tokens, mask }) => tokens.filter((_, i) => mask[i] === 1));
      expect(trained).toEqual(turns.flatMap(({ sampled }) => sampled));
    });
});
