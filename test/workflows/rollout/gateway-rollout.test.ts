/**
 * Hunts model calls of programs that are lost, repeated, answered in two ways, or trained on in other tokens than were
 * sampled: real Temporal, store, bubblewrap sandboxes and their doors; Python programs call the gateway, and a scripted
 * engine answers in ids that no encoder would choose.
 * Not asserted: what a hostile program finds at the door; see test/sandboxes/hostile/door.test.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { ExternalRollout } from '../../../client/external-rollout.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RolloutInput, RolloutResult } from '../../../protocol/rollout.ts';
import { killProcess } from '../../../sandboxes/supervised/process-identity.ts';
import { folderOf, readIdentity } from '../../../sandboxes/supervised/state.ts';
import { turnsOf } from '../../../store/read-records.ts';
import type { Task, Work } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { mergeTransitions, transitionsOf } from '../../../trainer/data/merge-transitions.ts';
import type { GenerateRequest, GenerateResult } from '../../../trainer/generate-request.ts';
import { call, characterTokenizer, saying, ScriptedEngine } from '../../activities/scripted-parts.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { useGatewayWorld } from './use-gateway-world.ts';

const bench = await openBench();
const tokenizer = characterTokenizer();

/** Answers by what it is asked. */
class AnsweringEngine extends ScriptedEngine {
  answer: (prompt: string, request: GenerateRequest) => GenerateResult | Promise<GenerateResult> = () => saying('42');

  override async generate(request: GenerateRequest): Promise<GenerateResult> {
    this.requests.push(request);
    return this.answer(tokenizer.decode(request.tokens), request);
  }
}
let engine = new AnsweringEngine();
let graded: Work[] = [];
beforeEach(() => {
  engine = new AnsweringEngine();
  graded = [];
});

/** \`ask(messages)\` returns the answer's message; errors are \`(status, error)\`. */
const LIBRARY = `
import json, os, sys, threading, time, urllib.error, urllib.request
BASE, KEY = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "runs", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]
def post(body, key=KEY, path="/chat/completions"):
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), {"authorization": "Bearer " + key, "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
def ask(messages, **over):
    status = 429
    while status == 429:
        status, answer = post({"model": os.environ["OPENAI_MODEL"], "messages": messages, **over})
        if status == 429: time.sleep(0.5)
    assert status == 200, (status, answer)
    return answer["choices"][0]["message"]
`;
const AGENT = `from library import *
import subprocess
messages = [{"role": "system", "content": "You use bash."}, {"role": "user", "content": "What is it?"}]
for _ in range(9):
    message = ask(messages, tools=TOOLS)
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for one in message["tool_calls"]:
        command = json.loads(one["function"]["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": one["id"], "content": done.stdout})
print(messages[-1]["content"])
`;
defineEnvironment({
  name: 'gated',
  open: async () =>
    await Promise.resolve({
      digest: 'gated',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Do it.' }],
          tools: [],
          sandboxes: {
            main: {
              workdir: '/work',
              files: [
                { path: 'library.py', content: LIBRARY },
                { path: 'agent.py', content: AGENT },
              ],
              env: {},
            },
          },
          grade: async (_ctx, work) => {
            graded.push(work);
            const passed = work.answer.includes('42');
            return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason: '' });
          },
        }),
    }),
});
const POLICY = { uri: 'file:///p', version: 0 } as const;

const world = useGatewayWorld(bench.provider, () => engine);
const { store } = world;

let serial = 0;
async function begin(command: string, over: Partial<RolloutInput> = {}, options: Record<string, unknown> = {}) {
  const id = `gateway-${serial++}`;
  const agent = { type: 'external', options: { command, gateway: true, ...options }, ...over.agent };
  const handle = await world.start('rollout', id, { task: 'gated-train-0', policy: POLICY, ...over, agent });
  const result = () => handle.result() as Promise<RolloutResult>;
  return { id, handle, result };
}
const attemptOf = (id: string, attempt = 1) => ({ run: id, rollout: id, attempt, task: '' });
const python = (text: string) => `python3 - <<'END'\nfrom library import *\n${text}\nEND`;
const user = (content: string) => ({ role: 'user', content });

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(50);
}
/** A turn with a call, then an answer. */
const twoTurns = (prompt: string) => (prompt.includes('tool:') ? saying('It is 42.') : saying(call('echo 42')));

describe('a program with a gateway', () => {
  it('calls the policy with tools, and each call is a turn in the tokens that were sampled', async () => {
    engine.answer = twoTurns;
    const { id, result } = await begin('python3 agent.py');
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, finish: 'answer', turns: 2, attempt: 1 });
    expect(graded[0]?.answer).toBe('It is 42.');
    const turns = await turnsOf(store, attemptOf(id));
    expect(turns.map(({ call: asked }) => asked?.follows)).toEqual([0, 1]);
    expect(turns[1]?.parsed).toMatchObject({ content: 'It is 42.' });
    // What came back as text is what was sampled: the second call saw the first one's own ids.
    const [first, second] = engine.requests;
    expect(second?.tokens.slice(0, first!.tokens.length)).toEqual(first!.tokens);
    expect(second?.tokens).toEqual([
      ...first!.tokens,
      ...saying(call('echo 42')).tokens,
      ...tokenizer.encode('\ntool:42\n$\nassistant:'),
    ]);
    const merged = mergeTransitions(transitionsOf(turns));
    expect(merged).toHaveLength(1);
    expect(merged[0]?.mask.reduce((sum, one) => sum + one, 0)).toBe(
      turns.reduce((sum, { sampled }) => sum + sampled.length, 0),
    );
  });

  it('may branch: each branch keeps what was sampled before it, and is a sequence of its own', async () => {
    engine.answer = (prompt) => saying(prompt.includes('title') ? 'A title' : `said ${prompt.length}`);
    const program = python(`
base = [${JSON.stringify(user('one'))}]
first = ask(base)
title = ask([{"role": "user", "content": "a title please"}])
left = ask(base + [first, {"role": "user", "content": "left"}])
right = ask(base + [first, {"role": "user", "content": "right"}])
more = ask(base + [first, {"role": "user", "content": "left"}, left, {"role": "user", "content": "on"}])
changed = ask(base + [{"role": "assistant", "content": "another"}, {"role": "user", "content": "left"}])
print("42")`);
    const { id, result } = await begin(program);
    expect(await result()).toMatchObject({ reward: 1, turns: 6 });
    const turns = await turnsOf(store, attemptOf(id));
    expect(turns.map(({ call: asked }) => asked?.follows)).toEqual([0, 0, 1, 1, 3, 0]);
    const merged = mergeTransitions(transitionsOf(turns));
    expect(merged).toHaveLength(4);
    // Each sampled token is trained on once.
    const trained = merged.flatMap(({ tokens, mask }) => tokens.filter((_, i) => mask[i] === 1));
    const byNumber = (a: number, b: number) => a - b;
    expect(trained.toSorted(byNumber)).toEqual(turns.flatMap(({ sampled }) => sampled).toSorted(byNumber));
  });

  it('gets server-sent events, and the errors of the API', async () => {
    const program = python(`
request = urllib.request.Request(BASE + "/chat/completions", json.dumps({"model": "x", "stream": True, "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": "hi"}]}).encode(), {"authorization": "Bearer " + KEY})
with urllib.request.urlopen(request) as response:
    lines = [line.decode().strip() for line in response if line.strip()]
assert lines[-1] == "data: [DONE]", lines
chunks = [json.loads(line[6:]) for line in lines[:-1]]
assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == "42"
assert chunks[-1]["usage"]["completion_tokens"] == 3, chunks[-1]
print(post({"messages": []})[0], post({"messages": [{"role": "user", "content": "x"}], "n": 2})[0], post({}, path="/completions")[0])
print(post({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]})[1]["error"]["message"])
print(urllib.request.urlopen(urllib.request.Request(BASE + "/models", headers={"authorization": "Bearer " + KEY})).status)`);
    const { result } = await begin(program);
    expect(await result()).toMatchObject({ status: 'graded', turns: 1 });
    expect(graded[0]?.answer).toMatch(/^400 400 404\n.*takes text alone, no image_url\n200$/u);
  });

  it('may use the other APIs: what comes back through them is matched with what was sampled', async () => {
    engine.answer = twoTurns;
    const program = python(`
tool = {"name": "bash", "description": "runs", "parameters": TOOLS[0]["function"]["parameters"]}
given = [{"role": "user", "content": "go"}]
status, first = post({"model": "m", "input": given, "tools": [{"type": "function", **tool}], "store": False}, path="/responses")
assert status == 200, first
one = [item for item in first["output"] if item["type"] == "function_call"][0]
status, second = post({"model": "m", "input": given + first["output"] + [{"type": "function_call_output", "call_id": one["call_id"], "output": "42"}], "tools": [{"type": "function", **tool}], "store": False}, path="/responses")
assert status == 200, second
tool = {"name": "bash", "description": "runs", "input_schema": tool["parameters"]}
given = [{"role": "user", "content": "go on"}]
status, first = post({"model": "m", "max_tokens": 500, "messages": given, "tools": [tool]}, path="/messages")
assert status == 200, first
use = [block for block in first["content"] if block["type"] == "tool_use"][0]
status, last = post({"model": "m", "max_tokens": 500, "messages": given + [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "42"}]}], "tools": [tool]}, path="/messages")
print(second["output"][-1]["content"][0]["text"], last["content"][0]["text"])
print(post({}, path="/messages")[1]["type"], post({}, path="/responses")[0])`);
    const { id, result } = await begin(program);
    expect(await result()).toMatchObject({ reward: 1, turns: 4 });
    expect(graded[0]?.answer).toBe('It is 42. It is 42.\nerror 400');
    expect((await turnsOf(store, attemptOf(id))).map(({ call: asked }) => asked?.follows)).toEqual([0, 1, 0, 3]);
  });

  it('may call side by side; the same prompt asked twice is sampled with two noises', async () => {
    engine.answer = async (_, { noiseKey }) => {
      await sleep(20);
      return saying(`noise ${noiseKey.slice(-2)}`);
    };
    const program = python(`
answers = []
def one():
    answers.append(ask([{"role": "user", "content": "same"}])["content"])
threads = [threading.Thread(target=one) for _ in range(12)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(set(answers)), 42)`);
    const { id, result } = await begin(program);
    expect(await result()).toMatchObject({ reward: 1, turns: 12 });
    expect(graded[0]?.answer).toBe('12 42');
    const noises = new Set(engine.requests.map(({ noiseKey }) => noiseKey));
    expect(noises.size).toBe(12);
    expect((await turnsOf(store, attemptOf(id))).length).toBe(12);
  });

  it('over its budget gets the API’s error, and its rollout ends so', async () => {
    const program = python(`
for i in range(3):
    status, answer = post({"messages": [{"role": "user", "content": str(i)}]})
    print(status, answer.get("error", {}).get("code"))
print(42)`);
    const turns = await begin(program, { agent: { maxTurns: 2 } } as never);
    expect(await turns.result()).toMatchObject({ reward: 1, finish: 'max-turns', turns: 2 });
    expect(graded[0]?.answer).toBe('200 None\n200 None\n429 insufficient_quota\n42');
    const tokens = await begin(program, { agent: { maxSampledTokens: 6 } } as never);
    expect(await tokens.result()).toMatchObject({ reward: 1, finish: 'token-budget', turns: 2 });
    const context = await begin(program, { agent: { maxContextTokens: 15 } } as never);
    expect(await context.result()).toMatchObject({ finish: 'answer', turns: 3 });
    expect(graded[2]?.answer).toMatch(/^400 context_length_exceeded/u);
  });

  it('is held by a pause, then answered', async () => {
    const held = Promise.withResolvers<void>();
    engine.answer = async () => {
      await held.promise;
      return saying('42');
    };
    const program = python(
      `print(ask([{"role": "user", "content": "1"}])["content"], ask([{"role": "user", "content": "2"}])["content"])`,
    );
    const { handle, result } = await begin(program);
    await until(() => engine.requests.length === 1);
    await handle.signal('pause');
    held.resolve();
    await until(async () => ((await handle.query('state')) as { turn: number }).turn === 1);
    await sleep(300);
    expect(engine.requests).toHaveLength(1);
    await handle.signal('resume');
    expect(await result()).toMatchObject({ reward: 1, turns: 2 });
  });

  it('whose worker is lost while it waits gets one answer, from the next worker', async () => {
    const begun = Promise.withResolvers<void>();
    let isFirst = true;
    engine.answer = async (prompt) => {
      if (prompt.includes('tool:') && isFirst) {
        isFirst = false;
        begun.resolve();
        await sleep(500);
      }
      return twoTurns(prompt);
    };
    const { id, result } = await begin('python3 agent.py; cat agent.py >> runs; wc -l < runs');
    await begun.promise;
    await world.now.stop();
    await world.open();
    const handle = world.now.client.workflow.getHandle(id);
    expect(await handle.result()).toMatchObject({ status: 'graded', reward: 1, turns: 2, attempt: 1 });
    void result;
    expect((await turnsOf(store, attemptOf(id))).map(({ parsed }) => parsed.kind)).toEqual(['calls', 'no-call']);
    expect(graded[0]?.answer.split('\n')[0]).toBe('It is 42.');
  });

  it('whose sandbox is lost begins again, and asks in the next attempt’s name', async () => {
    const held = Promise.withResolvers<void>();
    engine.answer = async (prompt) => {
      if (prompt.includes('tool:')) await held.promise;
      return twoTurns(prompt);
    };
    const { id, result } = await begin('python3 agent.py');
    await until(() => engine.requests.length === 2);
    killProcess(readIdentity(folderOf(bench.stateDir, `${id}#1`), 'inner')!);
    held.resolve();
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, attempt: 2, turns: 2 });
    const noises = engine.requests.map(({ noiseKey }) => noiseKey);
    // The same prompts have the same noise.
    expect(noises.slice(2, 4)).toEqual(noises.slice(0, 2));
    expect(await store.get<GenerateRecord>(keys.generate(attemptOf(id, 2), 1))).toMatchObject({ call: { follows: 0 } });
  });

  it('whose workflow is terminated and started again under its id begins again, with turns of its own', async () => {
    const held = Promise.withResolvers<void>();
    engine.answer = async (prompt) => {
      if (prompt.includes('tool:')) await held.promise;
      return twoTurns(prompt);
    };
    const { id, handle } = await begin('python3 agent.py');
    await until(() => engine.requests.length === 2);
    await handle.terminate();
    held.resolve();
    const agent = { type: 'external', options: { command: 'python3 agent.py', gateway: true } };
    const again = await world.start('rollout', id, { task: 'gated-train-0', policy: POLICY, agent });
    expect(await again.result()).toMatchObject({ status: 'graded', reward: 1, attempt: 2, turns: 2 });
    expect((await turnsOf(store, attemptOf(id, 2))).map(({ call: asked }) => asked?.follows)).toEqual([0, 1]);
  });

  it('that ended during a pause with a call open has its sandbox renewed, or found lost', async () => {
    const held = Promise.withResolvers<void>();
    engine.answer = async () => {
      await held.promise;
      return saying('42');
    };
    const call = (text: string) => `post({"messages": [{"role": "user", "content": "${text}"}]})`;
    const start = (text: string) => `threading.Thread(target=lambda: ${call(text)}, daemon=True).start()`;
    const program = python(
      `${call('1')}\nopen("first", "w")\ntime.sleep(1)\n${start('2')}\ntime.sleep(1)\nos._exit(0)`,
    );
    const { id, handle, result } = await begin(program);
    await until(() => engine.requests.length === 1);
    await handle.signal('pause');
    held.resolve();
    const doing = async () => (await handle.query('state')) as { turn: number; attempt: number };
    await until(async () => (await doing()).turn === 1);
    const folder = folderOf(bench.stateDir, `${id}#1`);
    // The program has ended and its second call waits: its end is in the history.
    const isEnded = async () =>
      (await handle.fetchHistory()).events?.some(
        ({ activityTaskScheduledEventAttributes: one }) => one?.activityType?.name === 'holdSandbox',
      ) ?? false;
    await until(isEnded);
    killProcess(readIdentity(folder, 'inner')!);
    await until(async () => (await doing()).attempt === 2);
    await handle.signal('resume');
    expect(await result()).toMatchObject({ status: 'graded', attempt: 2 });
  });

  it('takes more calls than a history does', async () => {
    const program = python(`
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(lambda i: ask([{"role": "user", "content": str(i)}])["content"], range(310)))
print(set(answers))`);
    const { handle, result } = await begin(program, { agent: { maxTurns: 1000 } } as never);
    expect(await result()).toMatchObject({ reward: 1, turns: 310, finish: 'answer' });
    const { runId } = await world.now.client.workflow.getHandle(handle.workflowId).describe();
    expect(runId).not.toBe(handle.firstExecutionRunId);
  });

  it('reports no turns of its own', async () => {
    const held = Promise.withResolvers<void>();
    engine.answer = async () => {
      await held.promise;
      return saying('42');
    };
    const { id, result } = await begin(python('print(ask([{"role": "user", "content": "1"}])["content"])'));
    const other = new ExternalRollout(world.now.client, id, 20_000);
    const report = other.report({ messages: [{ role: 'assistant', content: 'x' }] });
    await expect(report).rejects.toMatchObject({ code: 'wrong', message: expect.stringMatching(/gateway/u) });
    held.resolve();
    expect(await result()).toMatchObject({ reward: 1, turns: 1 });
  });
});
