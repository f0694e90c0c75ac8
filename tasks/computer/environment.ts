/**
 * The environment `computer`: small tasks on a desktop in the sandbox, graded by the state that the application writes
 * down. A policy has the tool `computer` alone: it cannot write the state itself.
 */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { openOnDesktop } from '../../agents/tools/computer/run-desktop.ts';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { Environment, Task } from '../environment.ts';
import { APPLICATION, STATE } from './application.ts';
import { desktopTask, type DesktopTask, KINDS } from './desktop-tasks.ts';

const START_MS = 120_000;
const WORKDIR = '/work';
const PROGRAM = `${WORKDIR}/application.py`;
const MOST_STATE = 1 << 16;
const TASKS = 1_000_000;

export const computerOptions = z.strictObject({
  /** Which kinds of tasks; they take turns. */
  kinds: z
    .array(z.enum(KINDS))
    .min(1, 'name at least one kind')
    .default([...KINDS]),
  /** For Docker: with Xvfb, xdotool, and Python with Tk. */
  image: z.string().optional(),
});

const called = (name: string, given: Readonly<Record<string, unknown>>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name, arguments: given }],
});

function verdictOf(artifact: Uint8Array, { state }: DesktopTask): Verdict {
  const text = Buffer.from(artifact).toString('utf8');
  const passed = text !== '' && isDeepStrictEqual(parsed(text), state);
  const reason = text === '' ? 'nothing was saved or pressed' : `the state is ${text.slice(0, 300)}`;
  return { code: 'graded', reward: Number(passed), passed, reason };
}

/** What is no JSON was not written by the application: it is compared as a text, and differs. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function taskOf(task: DesktopTask, image: string | undefined): Task {
  const { kind, request, given, solution } = task;
  return {
    family: kind,
    messages: [{ role: 'user', content: `${request} When you are done, call finish.` }],
    tools: ['computer', 'finish'],
    sandboxes: {
      main: {
        workdir: WORKDIR,
        files: [{ path: PROGRAM, content: APPLICATION }],
        env: {},
        limits: { memoryMiB: 512, processes: 128, diskMiB: 64 },
        ...(image !== undefined && { image }),
      },
    },
    gradedIn: 'none',

    async start(ctx) {
      const command = ['python3', PROGRAM, kind, JSON.stringify(given)];
      const call = { sandbox: await ctx.sandbox(), callId: `${ctx.id}/open`, timeoutMs: START_MS };
      await openOnDesktop(command, WORKDIR, call);
      return { state: {} };
    },

    async collect(ctx) {
      const found = await (await ctx.sandbox()).read(STATE, MOST_STATE);
      return found.kind === 'file' ? found.content : Buffer.alloc(0);
    },

    grade: async (_ctx, { artifact }) => await Promise.resolve(verdictOf(artifact, task)),

    oracle: async () =>
      await Promise.resolve([...solution.map((action) => called('computer', action)), called('finish', {})]),
  };
}

export const computerEnvironment: Environment<z.output<typeof computerOptions>> = {
  name: 'computer',
  options: computerOptions,
  open: async ({ kinds, image }) =>
    await Promise.resolve({
      digest: `computer 1 ${kinds.join(' ')} ${image ?? ''}`,
      splits: { train: TASKS, test: TASKS },
      load: async (split, index) => await Promise.resolve(taskOf(desktopTask(split, index, kinds), image)),
    }),
};
