/**
 * Agents of other projects, unchanged, from PyPI and npm: each runs in a bubblewrap sandbox that sees its packages, and
 * asks the policy through the gateway; its rollout is graded, and each of its calls is a turn with the ids that were
 * sampled. `node test/interop/agents.ts` fetches the packages and runs this; `npm test` does not, since they are some
 * gigabytes.
 * Not asserted: how good they are; a scripted engine answers.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { keys } from '../../protocol/record-keys.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';
import { turnsOf } from '../../store/read-records.ts';
import type { Task } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { mergeTransitions, transitionsOf } from '../../trainer/data/merge-transitions.ts';
import type { GenerateRequest, GenerateResult } from '../../trainer/generate-request.ts';
import { characterTokenizer, saying, ScriptedEngine } from '../activities/scripted-parts.ts';
import { openBench } from '../sandboxes/harness.ts';
import { useGatewayWorld } from '../workflows/rollout/use-gateway-world.ts';

/** Has a folder of packages for each agent. */
const PACKAGES = process.env['LONGHAUL_INTEROP_AGENTS'];

interface Agent {
  readonly name: string;
  readonly command: string;
  /** What the policy says to its calls, in their order. */
  readonly answers: readonly string[];
  /** What it says to calls beside the task, such as for a title: those whose prompt is like this. */
  readonly aside?: { readonly like: RegExp; readonly says: string };
  /** The sequences that are trained on: one if it sends its history back as it got it. */
  readonly sequences: number;
}

const TASK = 'What is six times seven?';
const call = (name: string, argument: string, value: string): string =>
  `<function=${name}>\n<parameter=${argument}>${value}</parameter>\n</function>`;
const MULTIPLY = 'echo $((6 * 7)) | tee product';
const SIX_TIMES_SEVEN = call('bash', 'command', MULTIPLY);
const SUBMIT = call('bash', 'command', 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat product');
const python = (program: string): string => `python3 ${program}.py '${TASK}'`;
const bash = (program: string): string => `bash ${program}.sh '${TASK}'`;

const AGENTS: readonly Agent[] = [
  { name: 'mini-swe-agent', command: python('mini_swe_agent'), answers: [SIX_TIMES_SEVEN, SUBMIT], sequences: 1 },
  { name: 'openai-agents', command: python('openai_agents'), answers: [SIX_TIMES_SEVEN, 'It is 42.'], sequences: 1 },
  {
    name: 'smolagents',
    command: python('smolagents_tools'),
    answers: [SIX_TIMES_SEVEN, call('final_answer', 'answer', '42')],
    sequences: 2,
  },
  {
    name: 'codex',
    command: bash('codex'),
    answers: [call('exec_command', 'cmd', MULTIPLY), 'It is 42.'],
    sequences: 1,
  },
  {
    name: 'qwen-code',
    command: bash('qwen_code'),
    answers: [call('run_shell_command', 'command', MULTIPLY), 'It is 42.'],
    sequences: 1,
  },
  {
    name: 'opencode',
    command: bash('opencode'),
    answers: [SIX_TIMES_SEVEN, 'It is 42.'],
    aside: { like: /You are a title generator/u, says: 'Six times seven' },
    sequences: 2,
  },
  { name: 'aider', command: bash('aider'), answers: ['It is 42.\n\nproduct\n```\n42\n```'], sequences: 1 },
];

/** Says what its agent's policy says, and knows which ids it gave. */
class AgentsEngine extends ScriptedEngine {
  readonly said: string[] = [];
  readonly #agent: Agent | undefined;
  #next = 0;

  constructor(agent?: Agent) {
    super();
    this.#agent = agent;
  }

  override async generate(request: GenerateRequest): Promise<GenerateResult> {
    this.requests.push(request);
    const prompt = tokenizer.decode(request.tokens);
    const { answers = [], aside } = this.#agent ?? {};
    const isAside = aside?.like.test(prompt) ?? false;
    const answer = saying((isAside ? aside?.says : answers[this.#next]) ?? 'Nothing is left to say.');
    if (!isAside) this.#next += 1;
    this.said.push(answer.tokens.join(' '));
    return await Promise.resolve(answer);
  }
}

let engine = new AgentsEngine();
const tokenizer = characterTokenizer();
const { provider } = await openBench({ guardTools: () => undefined });

const PROGRAMS = join(import.meta.dirname, 'agents');
const files = readdirSync(PROGRAMS).map((path) => ({ path, content: readFileSync(join(PROGRAMS, path)) }));

function taskOf({ name, command }: Agent): Task {
  const env = {
    PATH: `/opt/tools/node_modules/node-linux-${process.arch}/bin:/opt/tools/node_modules/.bin:/usr/bin:/bin`,
    PYTHONPATH: '/opt/tools',
    MSWEA_SILENT_STARTUP: '1',
    MSWEA_GLOBAL_CONFIG_DIR: '/tmp/mini',
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  };
  const limits = { memoryMiB: 1024, processes: 64, diskMiB: 64 };
  const toolsFolder = join(PACKAGES ?? '', name);
  return {
    messages: [{ role: 'user', content: TASK }],
    tools: [],
    agent: { type: 'external', options: { command, gateway: true, timeoutSeconds: 240 } },
    sandboxes: { main: { workdir: '/work', files, env, limits, toolsFolder } },
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
      engine = new AgentsEngine(agent);
      const task = `third-party-train-${index}`;
      const policy = { uri: 'file:///p', version: 0 };
      const handle = await world.start('rollout', agent.name, { task, policy, agent: { maxContextTokens: 1_000_000 } });
      const result = (await handle.result()) as RolloutResult;
      const printed = await world.store.get(keys.outcome(agent.name));
      expect(result, JSON.stringify(printed)).toMatchObject({
        status: 'graded',
        reward: 1,
        finish: 'answer',
        attempt: 1,
      });
      const turns = await turnsOf(world.store, { rollout: agent.name, attempt: 1 });
      const sampled = turns.map((turn) => turn.sampled.join(' '));
      expect(sampled.toSorted()).toEqual(engine.said.toSorted());
      expect(result.turns).toBe(agent.answers.length + Number(agent.aside !== undefined));
      const merged = mergeTransitions(transitionsOf(turns));
      expect(merged).toHaveLength(agent.sequences);
      const trained = merged.flatMap(({ tokens, mask }) => tokens.filter((_, i) => mask[i] === 1));
      expect(trained).toEqual(turns.flatMap((turn) => turn.sampled));
    });
});
