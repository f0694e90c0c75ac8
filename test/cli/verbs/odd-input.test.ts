/** Hunts numbers, names and assignments on the command line that are read as something else. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '#setup/paths.mjs';
import { runCommandLine } from '../../../cli/run.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul odd-'));
writeFileSync(join(dir, 'sft.yaml'), 'out: x\ndata: { a: { files: a.jsonl } }\nstages: []\n');
writeFileSync(
  join(dir, 'eval.yaml'),
  'tasks: { name: swe-mini, count: 1000000000 }\npolicies: [{ name: s, policy: starter }]\n',
);
writeFileSync(
  join(dir, 'small.yaml'),
  'tasks: { name: swe-mini, count: 1 }\npolicies: [{ name: s, policy: starter }]\n',
);
writeFileSync(
  join(dir, 'run.yaml'),
  `policy: { base: ${join(packageRoot, 'examples', 'starter')} }\ntask: { name: swe-mini }\n`,
);
afterAll(() => rmSync(dir, { recursive: true }));

async function refusal(...args: string[]): Promise<string> {
  let err = '';
  const around = {
    out: () => undefined,
    err: (text: string) => {
      err += text;
    },
    env: { LONGHAUL_HOME: join(dir, 'home') },
    cwd: dir,
    signal: new AbortController().signal,
  };
  const code = await runCommandLine(args, around);
  return `${code} ${err.trim()}`;
}

it.each([
  [['set', 'r', 'steps=1=2'], 'k=v: "steps=1=2" cannot be used; write it as learningRate=0.0001'],
  [['set', 'r', 'checkpointEvery= '], 'k=v: "checkpointEvery= " cannot be used; write it as learningRate=0.0001'],
  [['set', 'r', '=3'], 'k=v: "=3" cannot be used; write it as learningRate=0.0001'],
  [['set', 'r', 'steps=1', 'steps=2'], 'k=v: "steps=2" cannot be used; give steps once'],
  [
    ['set', 'eval/e', 'steps=3'],
    'RUN: "eval/e" cannot be used; give a run: of an eval that runs, only budgets can be changed',
  ],
  [
    ['watch', 'eval/e'],
    'RUN: "eval/e" cannot be used; give a run. To follow an eval, run the command that started it (npx longhaul eval CONFIG); to show it: npx longhaul show eval/e',
  ],
  [
    ['schedule', 'create', join(dir, 'small.yaml'), '--every', '99999999d'],
    '--every: "99999999d" cannot be used; give at most 3650d',
  ],
  [
    ['schedule', 'create', join(dir, 'small.yaml'), '--every', '1h', '--catch-up', '1e9s'],
    '--catch-up: "1e9s" cannot be used; give a number with s, m, h or d: 30m',
  ],
  [
    ['schedule', 'create', join(dir, 'small.yaml'), '--cron', '* * * * *', '--timezone', ''],
    '--timezone: "" cannot be used; give a zone such as Europe/Berlin, or leave it out: UTC',
  ],
  [
    ['bench', 'async', '--max-staleness-steps', ''],
    '--max-staleness-steps: "" cannot be used; give a whole number of at least 0',
  ],
  [
    ['bench', 'orchestration', '--rollouts', '1.5'],
    '--rollouts: "1.5" cannot be used; give a whole number of at least 1',
  ],
  [['times', 'r', '--sample', ' '], '--sample: " " cannot be used; give a whole number of at least 1'],
  [
    ['serve', '--model', 'starter', '--port', '70000'],
    '--port: "70000" cannot be used; give a whole number from 0 to 65535',
  ],
  [
    ['rollout', '--task', 'swe-mini-held-out-0', '--policy', 'starter', '--temperature', 'hot'],
    '--temperature: "hot" cannot be used; give a number from 0 (greedy) to 10',
  ],
  [['sft', join(dir, 'sft.yaml')], 'stages: [] cannot be used; give a list of at least 1'],
  [['eval', join(dir, 'eval.yaml'), '--dry-run'], 'tasks.count: 1000000000 cannot be used; give at most 1000000'],
])('%j is refused with field, value and remedy', async (args, message) => {
  expect(await refusal(...args)).toBe(`2 longhaul: ${message}`);
});

it.each([
  ['train', 'run.yaml', '--dry-run'],
  ['eval', 'small.yaml', '--dry-run'],
  ['check', 'run.yaml'],
])('%s %s %s refuses a type of agent that nobody has defined', async (verb, file, ...flags) => {
  expect(await refusal(verb, join(dir, file), ...flags, '--set', 'agent.type=tool')).toBe(
    '2 longhaul: agent.type: "tool" cannot be used; ' +
      'give a known agent (there is no agent tool; known: tools, text, external; did you mean tools?)',
  );
});

it.each([
  ['train', 'small.yaml', "give a run's: this describes an eval, for npx longhaul eval"],
  ['eval', 'run.yaml', "give an eval's: this describes a run, for npx longhaul train"],
])('%s %s, which is of the other kind, names the verb for it', async (verb, file, remedy) => {
  const path = join(dir, file);
  const said = `2 longhaul: CONFIG: ${JSON.stringify(path)} cannot be used; ${remedy}`;
  expect(await refusal(verb, path, '--dry-run')).toBe(said);
});

it.each([['up', '--detach'], ['ps'], ['runs'], ['down'], ['schedule', 'list']])(
  '%s %s with a file as its home is refused by the variable',
  async (...args) => {
    const around = { out: () => undefined, cwd: dir, signal: new AbortController().signal };
    let err = '';
    const home = join(dir, 'small.yaml');
    const code = await runCommandLine(args, {
      ...around,
      err: (text) => {
        err += text;
      },
      env: { LONGHAUL_HOME: home },
    });
    expect(`${code} ${err.trim()}`).toBe(
      `2 longhaul: LONGHAUL_HOME: ${JSON.stringify(home)} cannot be used; give a folder: that is a file`,
    );
  },
);
