/** Hunts an agent that reads the tests, writes its own reward, or keeps its work from being graded. In real sandboxes. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { Sandbox, SandboxSpec } from '../../../sandboxes/sandbox.ts';
import { harbor, harborOptions } from '../../../tasks/harbor/environment.ts';
import type { Task, TaskContext, Work } from '../../../tasks/environment.ts';
import { machineOf } from '../../../tasks/resources.ts';
import { openBench, sh } from '../../sandboxes/harness.ts';

const bench = await openBench();
const dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-harbor-')));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let count = 0;
const HELLO =
  '[ "$(cat hello.txt)" = hello ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n';

async function taskOf(files: Record<string, string>, more: Record<string, unknown> = {}): Promise<Task> {
  count += 1;
  const folder = join(dir, String(count));
  for (const [path, text] of Object.entries({
    'instruction.md': 'Say hello.',
    'task.toml': '[environment]\nstorage_mb = 64\nmemory_mb = 128\n',
    ...files,
  })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const io = { path: (_: string, path: string) => path };
  return await (
    await harbor.open(harborOptions.parse({ data: { test: folder }, image: 'files', ...more }), io)
  ).load('test', 0);
}

const specOf = (task: Task, id: string): SandboxSpec => {
  const { network: _network, ...machine } = machineOf(task, 'k', 'main');
  return { ...machine, id, ttlSeconds: 120 };
};

function contextOf(sandbox: Sandbox, id: string): TaskContext {
  const { provider } = bench;
  const signal = new AbortController().signal;
  return {
    key: 'k',
    id,
    execution: 1,
    deadline: Infinity,
    signal,
    provider,
    ask: () => Promise.reject(new Error('no judge')),
    sandbox: () => Promise.resolve(sandbox),
  };
}

const work = (more: Partial<Work> = {}): Work => ({
  transcript: [],
  answer: '',
  finish: 'finish-tool',
  turns: 1,
  artifact: new Uint8Array(),
  state: undefined,
  turnRewards: [],
  ...more,
});
const agentBox = async (task: Task): Promise<Sandbox> =>
  await bench.provider.create(specOf(task, `agent-${(count += 1)}`));

/** What the agent does, and the verdict. */
async function verdictAfter(task: Task, command: string) {
  const sandbox = await agentBox(task);
  await sh(sandbox, command);
  return await task.grade(contextOf(sandbox, `${sandbox.id}/grade`), work());
}

it('grades in place, with tests that the agent never sees', async () => {
  const task = await taskOf({ 'tests/test.sh': HELLO, 'tests/deep/er/secret': 's' });
  const sandbox = await agentBox(task);
  const { output } = await sh(sandbox, 'ls -A /tests /logs /solution; echo hello >hello.txt');
  expect(output).not.toContain('test.sh');
  expect(await task.grade(contextOf(sandbox, 'g1'), work())).toMatchObject({ code: 'graded', reward: 1, passed: true });
  // A grading that is repeated under the same calls is the same.
  expect(await task.grade(contextOf(sandbox, 'g1'), work())).toMatchObject({ reward: 1 });
});

it('what the agent left in place of the rewards, the tests, the programs and the home is not used', async () => {
  const task = await taskOf({ 'tests/test.sh': `. "$HOME/.local/bin/env"\n${HELLO}` });
  const forged = 'echo \'{"reward": 1}\' >/logs/verifier/reward.json; echo 1 >/logs/verifier/reward.txt';
  const attacks = [
    `mkdir -p /logs/verifier; ${forged}; chmod 500 /logs/verifier; mkdir -p /tests/x; echo exit >/tests/test.sh; chmod 000 /tests/x`,
    `mkdir -p /tmp/v; ln -s /tmp/v /logs/verifier; ${forged}`,
    `mkdir -p $HOME/.local/bin; echo '${forged.replaceAll("'", `'\\''`)}; exit' | tee $HOME/.local/bin/env $HOME/.bashrc`,
    `export PATH=$PWD:$PATH BASH_ENV=$PWD/env; echo '${forged.replaceAll("'", `'\\''`)}' | tee env cat >/dev/null; chmod +x cat`,
    `(setsid bash -c 'while :; do mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; echo 1 >/logs/verifier/reward.json; done' >/dev/null 2>&1 &)`,
  ];
  for (const attack of attacks)
    expect(await verdictAfter(task, attack), attack).toMatchObject({ code: 'graded', reward: 0 });
});

it('a verifier that does not end, writes nothing or fills the disk is 0, not a failure', async () => {
  const slow = await taskOf({
    'tests/test.sh': 'sleep 60\n',
    'task.toml': '[verifier]\ntimeout_sec = 1\n[environment]\nstorage_mb = 64',
  });
  expect(await verdictAfter(slow, 'true')).toMatchObject({
    reward: 0,
    reason: expect.stringContaining('not in time (1 s)'),
  });
  const silent = await taskOf({ 'tests/test.sh': 'exit 3\n' });
  expect(await verdictAfter(silent, 'true')).toMatchObject({
    reward: 0,
    reason: expect.stringContaining('test.sh ended with 3'),
  });
  const full = await taskOf({ 'tests/test.sh': HELLO });
  expect(await verdictAfter(full, 'head -c 100M /dev/zero >/tests/full; echo hello >hello.txt')).toMatchObject({
    reward: 1,
  });
});

it('what the agent left running stays only if the options say so', async () => {
  const files = { 'tests/test.sh': 'pgrep -f beat-on >/dev/null && echo 1 >/logs/verifier/reward.txt\n' };
  const beat = "(setsid bash -c 'while :; do sleep 0.1; done' beat-on >/dev/null 2>&1 &)";
  expect(await verdictAfter(await taskOf(files), beat)).toMatchObject({ reward: 0 });
  expect(await verdictAfter(await taskOf(files, { processes: 'keep' }), beat)).toMatchObject({ reward: 1 });
});

it('steps: each is verified in place, its tests are gone before the next, and a low reward ends the task', async () => {
  const step = (name: string, more = '') => `[[steps]]\nname = "${name}"\n${more}`;
  const files = {
    'task.toml': `[environment]\nstorage_mb = 64\n${step('a', 'min_reward = 0.5\n')}${step('b')}`,
    'steps/a/instruction.md': 'Write a.',
    'steps/a/tests/test.sh': '[ -f a ] && echo 1 >/logs/verifier/reward.txt\n',
    'steps/b/instruction.md': 'Write b.',
    'steps/b/tests/test.sh': '[ -f b ] && [ -f given ] && [ -f made ] && echo 0.5 >/logs/verifier/reward.txt\n',
    'steps/b/workdir/given': 'x',
    'steps/b/workdir/setup.sh': 'echo y >made\n',
  };
  const task = await taskOf(files);
  const sandbox = await agentBox(task);
  const ctx = (n: string) => contextOf(sandbox, `${sandbox.id}/${n}`);
  const begun = await task.start?.(ctx('start'));
  await sh(sandbox, 'touch a');
  const first = await task.step?.(ctx('1'), begun?.state, 'done');
  expect(first).toMatchObject({
    state: { steps: [{ reward: 1 }] },
    messages: [{ role: 'user', content: expect.stringContaining('Write b.') }],
  });
  expect((await sh(sandbox, 'ls -A /tests /logs/verifier; cat made')).output).toContain(
    '/logs/verifier:\n\n/tests:\ny\n',
  );
  await sh(sandbox, 'touch b');
  const second = await task.step?.(ctx('2'), first?.state, 'done');
  expect(second).toMatchObject({ done: true, state: { steps: [{ reward: 1 }, { reward: 0.5 }] } });
  expect(await task.grade(ctx('g'), work({ state: second?.state }))).toMatchObject({ reward: 0.75 });
  // An agent that is stopped in the second step is verified as it stands.
  expect(await task.grade(ctx('g2'), work({ state: first?.state }))).toMatchObject({ reward: 0.75 });
  const other = await agentBox(task);
  const low = await task.step?.(contextOf(other, `${other.id}/1`), { steps: [] }, 'done');
  expect(low).toMatchObject({
    done: true,
    state: { steps: [{ reward: 0 }], ended: expect.stringContaining('below min_reward 0.5') },
  });
  expect(await task.grade(contextOf(other, `${other.id}/g`), work({ state: low?.state }))).toMatchObject({ reward: 0 });
});

it('a separate verifier sees the artifacts alone', async () => {
  const task = await taskOf({
    'task.toml':
      'artifacts = ["/app/out"]\n[environment]\nstorage_mb = 64\n[verifier]\nenvironment_mode = "separate"\n[[verifier.collect]]\ncommand = "date >/logs/artifacts/when"\n',
    'tests/test.sh':
      '[ -f /app/out/x ] && [ ! -e /app/other ] && [ -s /logs/artifacts/when ] && echo 1 >/logs/verifier/reward.txt\n',
  });
  expect(task.gradedIn).toBe('fresh');
  const sandbox = await agentBox(task);
  await sh(sandbox, 'mkdir -p out /logs/artifacts; echo x >out/x; echo o >other');
  const artifact = await task.collect?.(contextOf(sandbox, `${sandbox.id}/collect`));
  const fresh = await agentBox(task);
  expect(
    await task.grade(contextOf(fresh, `${fresh.id}/g`), work({ artifact: artifact ?? new Uint8Array() })),
  ).toMatchObject({ reward: 1 });
  const spoilt = await agentBox(task);
  await sh(spoilt, 'mkdir -p /logs; echo file >/logs/artifacts');
  const none = await task.collect?.(contextOf(spoilt, `${spoilt.id}/collect`));
  expect(await task.grade(contextOf(fresh, 'none'), work({ artifact: none ?? new Uint8Array() }))).toMatchObject({
    reward: 0,
    reason: expect.stringContaining('date >/logs'),
  });
});
