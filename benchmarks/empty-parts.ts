/** A model and a sandbox that do nothing, behind the real interfaces: the remaining cost is Longhaul's own. */

import type { AgentRunActivities } from '../protocol/activities.ts';
import type { PolicyTokenizer } from '../activities/generate/sample-ids.ts';
import type { Sandbox, SandboxProvider } from '../sandboxes/sandbox.ts';
import { type Environment, MAIN, type Task } from '../tasks/environment.ts';
import type { Engine } from '../trainer/engine.ts';

const CALL = '<function=bash>\n<parameter=command>true</parameter>\n</function>';
const FINISH = '<function=finish>\n</function>';

const END = 0;

/** A tokenizer without work: the same ids for every text. */
export const emptyTokenizer: PolicyTokenizer = {
  encode: () => Array.from({ length: 40 }, (_, i) => i + 1),
  decode: (ids) => (ids[0] === 1 ? FINISH : CALL),
  renderChat: (messages) => messages.map(() => 'm$').join(''),
  endOfTurn: '$',
  chatTemplate: '<function=',
  stopTokenIds: [END],
};

/** Calls a tool in every turn but the last. */
export function emptyEngine(turns: number): Engine {
  return {
    async generate({ noiseKey }) {
      const last = Number(noiseKey.slice(noiseKey.lastIndexOf('/') + 1)) >= turns;
      const tokens = [last ? 1 : 2, ...Array.from({ length: 22 }, (_, i) => i + 3), END];
      return { tokens, logprobs: tokens.map(() => -0.5), finishReason: 'stop' };
    },
    update: () => Promise.reject(new Error('The empty engine does not train')),
    close: async () => undefined,
  };
}

function emptySandbox(id: string): Sandbox {
  const nothing = {
    exitCode: 0,
    signal: null,
    output: '',
    droppedBytes: 0,
    timedOut: false,
    outOfMemory: false,
    durationMs: 0,
  };
  return {
    id,
    exec: async () => nothing,
    write: async ({ note }) => ({ note }),
    written: async () => undefined,
    read: async () => ({ kind: 'missing' }),
    renew: async () => undefined,
    close: () => undefined,
  };
}

export const emptyProvider: SandboxProvider = {
  name: 'empty',
  create: async ({ id }) => emptySandbox(id),
  connect: async (id) => emptySandbox(id),
  destroy: async () => undefined,
  list: async () => [],
};

export const emptyTask: Task = {
  family: 'empty',
  messages: [{ role: 'user', content: 'Do nothing.' }],
  tools: ['bash', 'finish'],
  sandboxes: { [MAIN]: { workdir: '/work', files: [], env: {}, limits: { memoryMiB: 1, processes: 1, diskMiB: 1 } } },
  collect: async () => new Uint8Array(),
  grade: async () => ({ code: 'graded', reward: 1, passed: true, reason: '' }),
};

export const emptyEnvironment: Environment = {
  name: 'empty',
  open: async () => ({ digest: 'empty', splits: { train: 1e9, 'held-out': 1e9 }, load: async () => emptyTask }),
};

/** Agent-run activities that do nothing: the cost of these rollouts is in other stages. */
export const idleAgent: AgentRunActivities = {
  agentRun: async () => ({ line: '' }),
  gradeInPlace: async () => ({ code: 'graded', reward: 1, passed: true, reason: '' }),
  collect: async () => ({ artifact: 'sha256:00', bytes: 0 }),
  releaseSandbox: async () => undefined,
  holdSandbox: async () => undefined,
  runProgram: async () => ({ finish: 'answer', ms: 0, line: '' }),
  recordReports: async () => undefined,
};
