/**
 * Rollouts whose policy is an endpoint, through Temporal and real workers; the endpoint is the embedded engine behind a
 * loopback server. Why: what a rollout becomes must not depend on where its policy is sampled. Asserted: by ids it is
 * the rollout that the engine itself makes; by chat it is graded; a sweep's greedy cells of both come out alike; no key
 * is in a history, in the store or in an eval's folder. Not asserted: other servers than the stand-in.
 */
import { fileUri } from '../../protocol/policy-uri.ts';
import { rootCause } from '@temporalio/common';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { Longhaul } from '../../client/longhaul.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { ROLES } from '../../workers/settings.ts';
import type { RolloutInput } from '../../protocol/rollout.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';
import { serveEngine } from '../support/endpoint/serve-engine.ts';

const starter = join(packageRoot, 'examples', 'starter');
const dir = mkdtempSync(join(tmpdir(), 'longhaul-endpoint-'));
const home = join(dir, 'home');
const key = 'sk-known-to-nobody-else';
const workers: ChildProcess[] = [];
let temporal: PrivateServer;
let engine: EmbeddedEngine;
let server: LoopbackServer;
let longhaul: Longhaul;
let store: Store;

beforeAll(async () => {
  temporal = await startPrivateServer(join(dir, 'temporal'));
  engine = await createEmbeddedEngine();
  const served = {
    engine,
    tokenizer: await loadTokenizer(starter),
    policy: { dir: starter, version: 0 },
    model: 'starter',
    owner: 'vllm' as const,
  };
  const handler = serveEngine(served);
  server = await startLoopback((asked, signal) =>
    asked.headers.authorization === `Bearer ${key}`
      ? handler(asked, signal)
      : { status: 401, body: { error: { message: `wrong: ${asked.headers.authorization ?? 'none'}` } } },
  );
  const env = {
    ...process.env,
    LONGHAUL_HOME: home,
    LONGHAUL_RUN_PLACES: join(dir, 'evals'),
    TEMPORAL_ADDRESS: temporal.address,
    ENDPOINT_KEY: key,
    WRONG_KEY: 'sk-wrong-one',
    LONGHAUL_KEYS: `ENDPOINT_KEY@${server.baseUrl},WRONG_KEY@${server.baseUrl}`,
  };
  for (const role of ROLES)
    workers.push(
      spawn(process.execPath, [join(packageRoot, 'workers', 'main.ts'), '--role', role], { env, stdio: 'ignore' }),
    );
  longhaul = await Longhaul.connect({ address: temporal.address });
  store = openSqliteStore(join(home, 'store'));
});

afterAll(async () => {
  for (const worker of workers) if (worker.exitCode === null) worker.kill('SIGTERM');
  await Promise.all(workers.map(async (worker) => worker.exitCode ?? (await once(worker, 'exit'))));
  await longhaul?.close();
  await store?.close();
  await server?.close();
  await engine?.close();
  await temporal?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const endpoint = (over: object) => ({
  endpoint: { baseUrl: server.baseUrl, model: 'starter', apiKeyEnv: 'ENDPOINT_KEY', ...over },
});
const agent = { maxTurns: 5, maxContextTokens: 700, toolTimeoutSeconds: 20 };
const sampling = { temperature: 0, maxTokens: 120 };
const rollOut = (id: string, policy: RolloutInput['policy'], over: Partial<RolloutInput> = {}) =>
  longhaul.rollout({ task: 'swe-mini-held-out-0', policy, agent, sampling, ...over }, id);
const turnsOf = async (rollout: string) =>
  (await store.list<GenerateRecord>(keys.generate({ run: '', rollout, attempt: 1, task: '' }, 0).slice(0, -5))).map(
    ({ value }) => value,
  );

describe('a sweep of an endpoint', () => {
  const given = (over: object = {}) => ({
    eval: 'served',
    dir: join(dir, 'evals'),
    tasks: { ids: ['swe-mini-held-out-0', 'swe-mini-held-out-1'] },
    agent,
    sampling: [sampling],
    bootstrap: { resamples: 100 },
    policies: ['starter', { name: 'server', ...endpoint({ mode: 'tokens', tokenizer: starter, ...over }) }],
  });
  const sweep = async (over?: object) => (await longhaul.evaluate(given(over))).result();

  it("has the engine's own greedy cell, and asks for nothing that is on record", async () => {
    const { cells } = await sweep();
    const [direct, through] = cells;
    expect([direct, through]).toMatchObject([
      { cell: 'starter/greedy', rollouts: 2, graded: 2 },
      { cell: 'server/greedy', rollouts: 2, graded: 2 },
    ]);
    expect([through?.meanReward?.mean, through?.passAt['1']?.mean]).toEqual([
      direct?.meanReward?.mean,
      direct?.passAt['1']?.mean,
    ]);
    const lines = readFileSync(join(dir, 'evals', 'served', 'rollouts.jsonl'), 'utf8')
      .trim()
      .split('\n');
    const rows = lines.map((line) => JSON.parse(line) as { policy: string; task: string; rollout: string });
    const sampledOf = async (policy: string) =>
      Promise.all(
        rows
          .filter((row) => row.policy === policy)
          .map(async ({ task, rollout }) => ({ task, turns: (await turnsOf(rollout)).map(({ sampled }) => sampled) })),
      );
    const [theirs, ours] = [await sampledOf('starter'), await sampledOf('server')];
    expect(theirs.flatMap(({ turns }) => turns).flat().length).toBeGreaterThan(0);
    expect(ours).toEqual(theirs);
    const served = rows.filter(({ policy }) => policy === 'server').map(({ rollout }) => turnsOf(rollout));
    for (const { endpoint: from } of (await Promise.all(served)).flat())
      expect(from).toMatchObject({ model: 'starter', offer: { mode: 'tokens' } });
    const before = server.asked.length;
    // Another limit makes no other eval; another address does.
    expect((await sweep({ maxTries: 2 })).cells).toEqual(cells);
    expect(server.asked.length).toBe(before);
    const refused = await sweep({ baseUrl: 'http://127.0.0.1:9/v1' }).catch((error: unknown) =>
      String(rootCause((error as Error).cause as Error)),
    );
    expect(refused).toMatch(/policies.server.endpoint.baseUrl: .* eval served began with/);
  });

  it('with the key itself among its settings is refused by the client already', async () => {
    await expect(sweep({ apiKey: key })).rejects.toMatchObject({
      field: 'policies.1.endpoint.apiKey',
      value: '(not shown)',
      remedy: expect.stringContaining('apiKeyEnv') as string,
    });
  });
});

describe('a rollout of an endpoint', () => {
  it("by ids is the engine's own, token for token", async () => {
    const direct = await rollOut('direct', { uri: fileUri(starter), version: 0 });
    const through = await rollOut('through', endpoint({ mode: 'tokens', tokenizer: starter }));
    expect(direct.status).toBe('graded');
    expect({ ...through, rollout: 'direct' }).toEqual(direct);
    const [theirs, ours] = [await turnsOf('direct'), await turnsOf('through')];
    expect(theirs.length).toBe(direct.turns);
    // What a call took is known of one's own engine alone.
    expect(theirs.every(({ cost }) => cost !== undefined)).toBe(true);
    expect(ours.map(({ endpoint: from, ...rest }) => [from?.offer, rest])).toEqual(
      theirs.map((turn) => [
        { mode: 'tokens', protocol: 'vllm' },
        { ...turn, digest: undefined, cost: undefined },
      ]),
    );
  });

  it('by chat is graded, and its records say that it cannot be trained on', async () => {
    const result = await rollOut('chat', endpoint({ mode: 'chat' }));
    expect(result).toMatchObject({ status: 'graded', reward: expect.any(Number) as number });
    const turns = await turnsOf('chat');
    expect(turns.length).toBe(result.turns);
    for (const turn of turns)
      expect(turn).toMatchObject({ sampled: [], untrainable: expect.stringContaining('chat') as string });
    expect(turns[0]?.chat?.usage?.completionTokens).toBeGreaterThan(0);
  });

  it('whose key is wrong fails at once, by the name of the setting, and is no reward', async () => {
    const before = server.asked.length;
    const result = await rollOut('wrong', endpoint({ mode: 'chat', apiKeyEnv: 'WRONG_KEY' }));
    expect(result).toMatchObject({
      status: 'failed',
      failure: 'bad-input',
      message: expect.stringMatching(/^policy.endpoint.apiKeyEnv: "WRONG_KEY"/) as string,
    });
    expect(result.reward).toBeUndefined();
    expect(server.asked.length).toBe(before + 1);
  });

  it.each([
    [
      'a variable that is on no list',
      () => endpoint({ mode: 'chat', apiKeyEnv: 'HOME' }),
      /^policy.endpoint.apiKeyEnv: "HOME".*LONGHAUL_KEYS/,
    ],
    [
      'an address that gives out credentials',
      () => endpoint({ mode: 'chat', apiKeyEnv: undefined, baseUrl: 'http://169.254.169.254/v1' }),
      /^policy.endpoint.baseUrl: "http:\/\/169/,
    ],
    [
      'a tokenizer elsewhere',
      () => endpoint({ mode: 'tokens', tokenizer: '/etc' }),
      /^policy.endpoint.tokenizer: "\/etc".*LONGHAUL_PLACES/,
    ],
    ['a policy elsewhere', () => ({ uri: 'file:///etc', version: 0 }), /^policy.uri: "\/etc".*LONGHAUL_PLACES/],
  ])('that names %s fails at once, and nothing is asked', async (what, policy, message) => {
    const before = server.asked.length;
    const result = await rollOut(`bounded-${what.replaceAll(' ', '-')}`, policy());
    expect(result).toMatchObject({
      status: 'failed',
      failure: 'bad-input',
      message: expect.stringMatching(message) as string,
    });
    expect(server.asked.length).toBe(before);
  });

  it('with the key itself among its settings is refused before there is a history', async () => {
    const refused = rollOut('key-inside', endpoint({ apiKey: key }));
    await expect(refused).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policy.endpoint.apiKey',
      remedy: expect.stringContaining('apiKeyEnv') as string,
    });
    await expect(longhaul.client.workflow.getHandle('key-inside').describe()).rejects.toThrow();
  });

  it('leaves its key in no history and in no store', async () => {
    for (const id of ['through', 'chat', 'wrong', 'eval/served', 'eval/served/server/greedy/r1-c0']) {
      const history = await longhaul.client.workflow.getHandle(id).fetchHistory();
      const text = JSON.stringify(history);
      const payloads = [...text.matchAll(/"data":"([^"]*)"/g)].map(([, data = '']) =>
        Buffer.from(data, 'base64').toString(),
      );
      // The name of the variable is found there: what is looked into is what the key would be in.
      expect(payloads.some((payload) => /ENDPOINT_KEY|WRONG_KEY/.test(payload))).toBe(true);
      expect([text, ...payloads].filter((part) => part.includes('sk-')).length).toBe(0);
    }
    const files = ['home/store/**/*', 'evals/**/*']
      .flatMap((held) => globSync(held, { cwd: dir }))
      .map((name) => join(dir, name));
    const held = files.filter((file) => statSync(file).isFile() && readFileSync(file).includes('sk-'));
    expect([files.length > 0, held]).toEqual([true, []]);
  });
});
