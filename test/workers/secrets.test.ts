/**
 * Hunts secrets of a worker's environment in its outputs: the sandbox, requests to Docker's daemon, the store,
 * histories, failures, run folders and logs. Whole rollouts over a real server; only the policy is scripted.
 */

import { TaskLoader } from '../../tasks/task-loader.ts';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { InitActivities } from '../../protocol/activities.ts';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { parseSettings, runConfigSchema } from '../../config/run-config.ts';
import { runCommandLine } from '../../cli/run.ts';
import { SandboxImpossible } from '../../sandboxes/sandbox.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { type Bench, openBubblewrapBench, openDockerBench } from '../sandboxes/harness.ts';
import { startWorld, type World } from '../support/workflow-world.ts';

const PLANTED = `planted-${randomBytes(8).toString('hex')}`;
/** Finds the secret without containing it. */
const PATTERN = 'planted-[0-9a-f]\\{16\\}';
const NAMES = [
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'AWS_SECRET_ACCESS_KEY',
  'HF_TOKEN',
  'GITHUB_TOKEN',
  'NPM_TOKEN',
  'LONGHAUL_TOKEN',
  'LONGHAUL_API_KEY',
  'DATABASE_URL',
  'TEMPORAL_API_KEY',
  'TEMPORAL_TLS_CLIENT_KEY_DATA',
  'TEMPORAL_CODEC_AUTH',
  'SSH_AUTH_SOCK',
  'ALL_PROXY',
  'BASH_FUNC_secret%%',
];
const secrets: Record<string, string> = {
  ...Object.fromEntries(NAMES.map((name) => [name, PLANTED])),
  HTTPS_PROXY: `http://user:${PLANTED}@127.0.0.1:9`,
  HTTP_PROXY: `http://user:${PLANTED}@127.0.0.1:9`,
};

const dir = mkdtempSync(join(tmpdir(), 'longhaul-secrets-'));
let server: PrivateServer;
let world: World;
let store: Store;
let bench: Bench;
const benches: Record<string, Bench> = {};

/** The files below `folder` whose bytes hold the secret. */
function filesWithSecret(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const path = join(folder, name);
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true && readFileSync(path).includes(PLANTED);
  });
}

/** Everything that a policy can look into, with or without the right to. */
const LOOKS = [
  'env; set; export -p; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n"',
  `grep -rsI '${PATTERN}' /etc /run /tmp /dev/shm /work /var /home /root /opt /srv /proc/1 /proc/self/environ /proc/mounts /proc/self/mountinfo 2>/dev/null | head -c 2000`,
];

beforeAll(async () => {
  benches['bubblewrap'] = await openBubblewrapBench();
  benches['docker'] = await openDockerBench({ transport: 'socket' });
  // From here on, every process that this one starts may inherit them.
  Object.assign(process.env, secrets, { NO_PROXY: '127.0.0.1,localhost' });
  server = await startPrivateServer(join(dir, 'server'));
  store = openSqliteStore(join(dir, 'store'));
  const provider = () => bench.provider;
  const script = {
    turn: (input: { turn: number }) => (input.turn <= LOOKS.length ? ('act' as const) : ('finish' as const)),
  };
  world = await startWorld(server.address, script, (scripted) => {
    const tasks = new TaskLoader(store);
    const deps = { store, tasks, host: 'test-host', sandboxTtlSeconds: 300, maxLiveSandboxes: 4 };
    const initNow = () => createInitActivities({ ...deps, provider: provider() });
    const init: InitActivities = {
      prepare: (input) => initNow().prepare(input),
      restoreSandbox: (input) => initNow().restoreSandbox(input),
    };
    const agent = () => createAgentRunActivities({ ...deps, provider: provider() });
    return {
      init,
      agentRun: {
        agentRun: (input) => agent().agentRun(input),
        gradeInPlace: (input) => agent().gradeInPlace(input),
        collect: async (input) => {
          seenOfSandbox.push(...filesWithSecret(bench.stateDir));
          return agent().collect(input);
        },
        releaseSandbox: (input) => agent().releaseSandbox(input),
        holdSandbox: (input) => agent().holdSandbox(input),
        runProgram: (input) => agent().runProgram(input),
        recordReports: (input) => agent().recordReports(input),
      },
      reward: {
        computeReward: (input) => createRewardActivities({ ...deps, provider: provider() }).computeReward(input),
      },
      gpu: {
        ...scripted.gpu,
        async generate(input) {
          const command = LOOKS[input.turn - 1];
          const calls =
            command === undefined ? [{ name: 'finish', arguments: {} }] : [{ name: 'bash', arguments: { command } }];
          await store.putOnce<GenerateRecord>(keys.generate(input, input.turn), {
            version: 0,
            appended: [1],
            reset: false,
            sampled: [2],
            logprobs: [-1],
            end: 'stop',
            parsed: { kind: 'calls', content: '', calls },
          });
          return scripted.gpu.generate(input);
        },
      },
    };
  });
});

afterAll(async () => {
  await world?.stop();
  await server?.stop();
  await store?.close();
  for (const name of Object.keys(secrets)) delete process.env[name];
  rmSync(dir, { recursive: true, force: true });
});

const seenOfSandbox: string[] = [];

async function rollOut(id: string, task: string): Promise<string> {
  const handle = await world.client.workflow.start('rollout', {
    taskQueue: 'orchestrator',
    workflowId: id,
    args: [{ task, policy: { uri: 'file:///p', version: 0 }, run: 'r' }],
  });
  await handle.result().catch(() => undefined);
  return JSON.stringify(await handle.fetchHistory());
}

it.each(['bubblewrap', 'docker'] as const)(
  'of %s: a rollout that looks for them everywhere finds none, and none is written down',
  async (name) => {
    bench = benches[name] as Bench;
    const history = await rollOut(`secret-${name}`, 'swe-mini-held-out-0');
    const at = { run: 'r', rollout: `secret-${name}`, attempt: 1, task: 'swe-mini-held-out-0' };
    const acts = await Promise.all(LOOKS.map(async (_, i) => await store.get<ActRecord>(keys.act(at, i + 1))));
    // It looked, and saw its own world.
    expect(acts[0]?.messages[0]?.content).toContain('PYTHONHASHSEED=0');
    expect(acts[1]?.messages[0]?.content).toBeDefined();
    expect(JSON.stringify(acts)).not.toContain(PLANTED);
    expect(history).toContain('computeReward');
    expect(history).not.toContain(PLANTED);
    expect(seenOfSandbox).toEqual([]);
  },
);

it('of a failure: the class and the reason, not the surroundings', async () => {
  bench = {
    ...(benches['bubblewrap'] as Bench),
    provider: {
      ...benches['bubblewrap']?.provider,
      create: async () => Promise.reject(new SandboxImpossible('no such image', { cause: new Error('spawn failed') })),
    } as unknown as Bench['provider'],
  };
  const history = await rollOut('secret-failed', 'swe-mini-held-out-1');
  expect(history).toContain('no such image');
  expect(history).not.toContain(PLANTED);
});

it("nothing of them is in the store, the server's database, its log, or what the daemon knows of containers", async () => {
  expect(readdirSync(join(dir, 'server')).length).toBeGreaterThan(0);
  expect(filesWithSecret(dir)).toEqual([]);
});

it('a setting that is named like a secret is refused without its value', () => {
  for (const given of [
    { policy: { base: '/p', apiKey: PLANTED } },
    { policy: { base: '/p' }, hfToken: PLANTED },
    { policy: { base: '/p', headers: { Authorization: PLANTED } } },
  ]) {
    let message = '';
    try {
      parseSettings(runConfigSchema, { task: { name: 'swe-mini' }, ...given });
    } catch (error) {
      message = `${String(error)} ${JSON.stringify(error)}`;
    }
    expect(message).toMatch(/apiKey|hfToken|headers/u);
    expect(message).not.toContain(PLANTED);
  }
});

it('logs of workers, and what the command line prints, are without them', async () => {
  const home = join(dir, 'home');
  mkdirSync(home);
  const main = join(import.meta.dirname, '../../workers/main.ts');
  const env = { ...process.env, LONGHAUL_HOME: home, TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_API_KEY: PLANTED };
  const ended = await promisify(execFile)(process.execPath, [main, '--role', 'init'], { env, timeout: 50_000 }).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  expect(ended.stderr).toContain('Temporal at 127.0.0.1:1');
  expect(`${ended.stdout}${ended.stderr}`).not.toContain(PLANTED);
  let said = '';
  const config = join(home, 'c.yaml');
  writeFileSync(config, `policy: { base: starter, apiKey: ${PLANTED} }\ntask: { name: swe-mini }\n`);
  const around = { out: (text: string) => void (said += text), err: (text: string) => void (said += text) };
  for (const args of [
    ['train', config],
    ['train', config, '--json'],
    ['ps', '--json'],
  ])
    await runCommandLine(args, { ...around, env, cwd: home, signal: new AbortController().signal });
  expect(said).toContain('apiKey');
  expect(said).not.toContain(PLANTED);
  expect(filesWithSecret(home).filter((name) => name !== 'c.yaml')).toEqual([]);
});
