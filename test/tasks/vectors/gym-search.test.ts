/**
 * The sections `search` and `searchcode` of gym.json: observations, ends, rewards, and what a retrieval
 * server is asked. Why: a policy that SkyRL trained must find the same environment here. Pauses between tries are
 * recorded, not waited for. Python runs in real sandboxes.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contextOver } from '../../../activities/task-context.ts';
import type { Message } from '../../../protocol/message.ts';
import type { Said } from '../../../protocol/transcript.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import type { Task, TaskContext } from '../../../tasks/environment.ts';
import type { SearchTaskSettings } from '../../../tasks/search/question-records.ts';
import { searchTask } from '../../../tasks/search/search.ts';
import { searchcodeTask, toolUseIn } from '../../../tasks/search/searchcode.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';
import { readVectors } from '../../support/vectors.ts';

interface Observation {
  readonly content?: string;
  readonly starts_with?: string;
  readonly ends_with?: string;
  readonly error_kind?: string;
}

interface Case {
  readonly env_config?: { readonly topk?: number };
  readonly extras: {
    readonly max_turns?: number;
    readonly reward_spec: { readonly ground_truth: string | { readonly target: string | readonly string[] } };
  };
  readonly actions: readonly string[];
  readonly server_plan: ReadonlyArray<{ readonly status?: number; readonly json?: unknown; readonly raw?: string }>;
  readonly steps: ReadonlyArray<{
    readonly observations: readonly Observation[];
    readonly reward: number;
    readonly done: boolean;
    readonly requests: readonly unknown[];
    readonly metadata?: { readonly tool_name?: string | null };
  }>;
  readonly retry_delays_s?: readonly number[];
}

interface Gym {
  readonly search: readonly Case[];
  readonly searchcode: readonly Case[];
}

const vectors = readVectors<Gym>('gym.json');
const { provider } = await openBench();
const { signal } = new AbortController();
let server: LoopbackServer;
let sandbox: Sandbox;

beforeAll(async () => {
  server = await startLoopback(() => ({ body: {} }));
  const limits = { memoryMiB: 512, processes: 64, diskMiB: 64 };
  const spec = { id: `gym-search-${process.pid}`, workdir: '/work', files: [], env: {}, limits, ttlSeconds: 300 };
  sandbox = await provider.create(spec);
}, 120_000);
afterAll(async () => {
  await provider.destroy(sandbox.id);
  await server.close();
});

function settingsOf({ env_config, extras }: Case): SearchTaskSettings {
  return {
    searchUrl: `${server.baseUrl}/retrieve`,
    topk: env_config?.topk ?? 3,
    timeoutSeconds: 30,
    k1: 1.2,
    b: 0.75,
    maxMiB: 1,
    whenDown: 'observe',
    maxTurns: extras.max_turns ?? 2,
    instruction: '',
  };
}

function goldenOf({ extras }: Case): readonly string[] {
  const { ground_truth: truth } = extras.reward_spec;
  return [typeof truth === 'string' ? truth : truth.target].flat().map(String);
}

let contexts = 0;
function context(): TaskContext {
  contexts += 1;
  return contextOver({ main: sandbox }, provider, {
    key: 'search-test-0',
    id: `gym-search/${contexts}`,
    execution: 1,
    signal,
    ask: () => Promise.reject(new Error('there is no judge')),
    deadline: Number.POSITIVE_INFINITY,
  });
}

const ERRORS: Readonly<Record<string, RegExp>> = {
  server_error_exhausted: /Server Error \(50[0234]\)/,
  client_error: /API Request Error: 4\d\d/,
  bad_json: /JSON Decode Error/,
  connection_error: /connection|ECONN/i,
};

function check(found: Message | undefined, expected: Observation, action: string): void {
  const { content, starts_with: start, ends_with: end, error_kind: kind } = expected;
  if (content !== undefined) expect(found?.content).toBe(content);
  if (start !== undefined) expect(found?.content.startsWith(start), found?.content).toBe(true);
  if (end !== undefined) expect(found?.content.endsWith(end), found?.content).toBe(true);
  if (kind === undefined) return;
  const use = toolUseIn(action);
  if ('wrong' in use && use.wrong === kind) expect(found?.content).toBe(use.message);
  else expect(found?.content).toMatch(ERRORS[kind] ?? new RegExp(`error of the kind ${kind}`));
}

async function play(task: Task, one: Case): Promise<void> {
  const plan = [...one.server_plan];
  server.handler = () => {
    const { status = 200, json, raw } = (plan.length > 1 ? plan.shift() : plan[0]) ?? {};
    return { status, body: raw ?? JSON.stringify(json) };
  };
  const transcript: Said[] = [...task.messages];
  let state: unknown = (await task.start?.(context()))?.state;
  for (const [i, expected] of one.steps.entries()) {
    const action = one.actions[i] ?? '';
    server.asked.length = 0;
    const told = await task.step?.(context(), state, action);
    state = JSON.parse(JSON.stringify(told?.state));
    const messages = told?.messages ?? [];
    transcript.push({ role: 'assistant', content: action }, ...messages);
    expect(told?.done ?? false, `done after ${action}`).toBe(expected.done);
    expect(messages.length).toBe(expected.observations.length);
    for (const [n, observation] of expected.observations.entries()) check(messages[n], observation, action);
    expect(server.asked.map(({ body }) => body)).toEqual(expected.requests);
    const verdict = expected.done
      ? await task.grade(context(), {
          transcript,
          answer: '',
          finish: 'done',
          turns: i + 1,
          artifact: new Uint8Array(),
          state,
          turnRewards: [],
        })
      : undefined;
    expect(verdict?.code === 'graded' ? verdict.reward : 0).toBe(expected.reward);
    const tool = expected.metadata?.tool_name;
    const use = toolUseIn(action);
    if (tool !== undefined && !expected.done) expect('tool' in use ? use.tool : null).toBe(tool);
  }
}

describe('search', () => {
  it.each(vectors.search.map((one, i) => [i, one] as const))('case %i', async (_i, one) => {
    const waits: number[] = [];
    const wait = (ms: number) => Promise.resolve(waits.push(ms / 1000));
    await play(searchTask({ id: '', asked: 'q', golden: goldenOf(one) }, settingsOf(one), wait), one);
    if (one.retry_delays_s !== undefined) expect(waits).toEqual(one.retry_delays_s);
  });
});

describe('searchcode', () => {
  it.each(vectors.searchcode.map((one, i) => [i, one] as const))(
    'case %i',
    async (_i, one) => {
      const wait = () => Promise.resolve();
      await play(searchcodeTask({ id: '', asked: 'q', golden: goldenOf(one) }, settingsOf(one), wait), one);
    },
    60_000,
  );
});
