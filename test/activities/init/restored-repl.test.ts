/**
 * Hunts an attempt of `rlm` that continues without its variables after its sandbox was lost, that asks its model again,
 * or that continues although its blocks said something else. Real bubblewrap sandboxes, a real store, and a model
 * behind HTTP; the policy's messages are written by the test.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { putCatalog } from '../../../store/read-records.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { resolveJudges } from '../../../workflows/rollout/resolve-judges.ts';
import { openBubblewrapBench } from '../../sandboxes/harness.ts';
import { type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';
import { attemptOf, inActivity, useWorld } from '../world.ts';

const bench = await openBubblewrapBench();
const world = useWorld();
const LONG = 600_000;
let model: LoopbackServer;
beforeEach(async () => {
  model = await startLoopback(({ body }) => {
    const { content } = (body['messages'] as Array<{ content: string }>).at(-1) ?? { content: '' };
    return { body: { choices: [{ finish_reason: 'stop', message: { content: `to ${content}` } }] } };
  });
});
afterEach(() => model.close());

let rollouts = 0;
async function parts(options: Record<string, unknown> = {}) {
  const { store, dir } = world.now;
  rollouts += 1;
  writeFileSync(join(dir, 'q.jsonl'), JSON.stringify({ question: 'Which?', answer: 'that', context: 'It is that.' }));
  const given = { data: { train: 'q.jsonl' }, model: 'helper', ...options };
  const catalog = await putCatalog({ sources: { rlm: { environment: 'rlm', options: given, folder: dir } } }, store);
  const judges = resolveJudges(
    { helper: { endpoint: { baseUrl: model.baseUrl, model: 'm', maxTries: 1 } } },
    (field) => {
      throw new Error(field);
    },
  );
  const attempt = { ...attemptOf(0, rollouts), task: 'rlm-train-0', catalog, judges };
  const place = {
    store,
    tasks: new TaskLoader(store),
    endpoints: new EndpointClient({}),
    provider: bench.provider,
    host: 'here',
    maxLiveSandboxes: 9,
    sandboxTtlSeconds: 300,
  };
  const [init, agent] = [createInitActivities(place), createAgentRunActivities(place)];
  const main = `${attempt.rollout}#1`;
  const act = async (turn: number, sandbox = main): Promise<string | undefined> => {
    await inActivity(() => agent.agentRun({ ...attempt, sandbox, host: 'here', turn, toolTimeoutSeconds: 240 }));
    return (await store.get<ActRecord>(keys.act(attempt, turn)))?.messages[0]?.content;
  };
  return {
    attempt,
    main,
    act,
    prepare: () => inActivity(() => init.prepare(attempt)),
    restore: () => inActivity(() => init.restoreSandbox({ ...attempt, restore: 1, toolTimeoutSeconds: 240 })),
    lose: () => bench.provider.destroy(main),
    say: async (turn: number, code: string): Promise<void> => {
      await store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
        version: 0,
        appended: [1],
        reset: false,
        sampled: [2],
        logprobs: [-1],
        end: 'stop',
        parsed: { kind: 'no-call', content: `\`\`\`repl\n${code}\n\`\`\`` },
        command: { do: 'step' },
      });
    },
  };
}

it('has its variables again, and asks its model nothing again', { timeout: LONG }, async () => {
  const { main, prepare, restore, lose, act, say } = await parts();
  await prepare();
  await say(1, 'heard = llm_query("a")\ndef twice(x): return x + x');
  await say(2, 'heard += llm_query("b")\nprint(twice(heard), object())');
  await say(3, 'print(twice(heard), llm_query("c"))');
  await act(1);
  expect(await act(2)).toContain('to ato bto ato b');
  await lose();
  await restore();
  expect(model.asked).toHaveLength(2);
  expect(await act(3, `${main}~1`)).toContain('to ato bto ato b to c');
  expect(model.asked).toHaveLength(3);
});

it('waits in its block while its model is down, and then continues', { timeout: LONG }, async () => {
  const { prepare, act, say } = await parts();
  await prepare();
  await say(1, 'print(llm_query("a"), llm_query("b"))');
  const { handler } = model;
  let asked = 0;
  model.handler = (...given) => ((asked += 1) > 1 ? { status: 503, body: {} } : handler(...given));
  await expect(act(1)).rejects.toMatchObject({ type: 'JudgeUnavailable' });
  model.handler = handler;
  expect(await act(1)).toContain('to a to b');
  expect(model.asked.filter(({ body }) => JSON.stringify(body).includes('"a"'))).toHaveLength(1);
});

it('is given up if its blocks say something else than before', { timeout: LONG }, async () => {
  const { prepare, restore, lose, act, say } = await parts({ builtins: 'all' });
  await prepare();
  await say(1, 'import time\nprint(time.time_ns())');
  await act(1);
  await lose();
  await expect(restore()).rejects.toMatchObject({ type: 'RestoreFailed' });
});
