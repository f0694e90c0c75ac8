/**
 * The calculator's problems by mini-swe-agent: its own loop runs in the sandbox, asks the policy through the gateway
 * and runs the shell commands that it writes. What it submits is graded. Use it with mini-swe-agent-eval.yaml, which
 * says how to get its packages.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineEnvironment, type Task, z } from 'longhaul';
import { type Problem, problemOf } from '../calculator/problems.ts';

const AGENT = readFileSync(join(import.meta.dirname, 'agent.py'));
const env = { PYTHONPATH: '/opt/tools', MSWEA_SILENT_STARTUP: '1', MSWEA_GLOBAL_CONFIG_DIR: '/tmp/mini' };
const limits = { memoryMiB: 256, processes: 32, diskMiB: 32 };

function taskOf({ family, question, answer }: Problem, toolsFolder: string): Task {
  return {
    family,
    messages: [{ role: 'user', content: question }],
    tools: [],
    agent: {
      type: 'external',
      options: { command: `python3 agent.py '${question}'`, gateway: true, timeoutSeconds: 300 },
    },
    sandboxes: { main: { workdir: '/work', files: [{ path: 'agent.py', content: AGENT }], env, limits, toolsFolder } },
    async grade(_ctx, { answer: given, finish, turns }) {
      const passed = finish === 'answer' && given.trim() === answer;
      const shown = JSON.stringify(given.trim().slice(0, 60));
      const reason = `submitted ${shown} after ${turns} calls (${finish}); ${answer} is right`;
      return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason });
    },
  };
}

defineEnvironment({
  name: 'mini-swe-agent',
  options: z.strictObject({ packages: z.string() }),
  async open(options, io) {
    const packages = io.path('packages', options.packages);
    return await Promise.resolve({
      digest: createHash('sha256').update(AGENT).digest('hex'),
      splits: { train: 1_000_000, 'held-out': 1_000_000 },
      load: async (split: string, n: number) => await Promise.resolve(taskOf(problemOf(split, n), packages)),
    });
  },
});
