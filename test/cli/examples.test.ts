/**
 * The configurations in `examples/`. Why: they are the first thing that a user runs. Asserted: its verb reads each of
 * them, and a dry run refuses a policy that does not exist. Not asserted: results of training with them.
 */
import { readdirSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readSftConfig } from '../../recipes/sft/sft-config.ts';
import { longhaul } from '../support/cli.ts';

const examples = fileURLToPath(new URL('../../examples', import.meta.url));
const recipes = readdirSync(examples).filter((name) => name.startsWith('starter-'));
const quickstart = join(examples, 'quickstart.yaml');

it('recipes exist', () =>
  expect(recipes).toEqual(['starter-clean.yaml', 'starter-copying.yaml', 'starter-mixed.yaml']));

it.each(recipes)('%s is read by longhaul sft', async (name) => {
  const { stages } = await readSftConfig(join(examples, name));
  expect(stages.length).toBeGreaterThan(0);
});

it('each part of the starter’s recipe continues where the previous one ends, with unseen tasks', async () => {
  const parts = await Promise.all(
    ['clean', 'copying', 'mixed'].map((part) => readSftConfig(join(examples, `starter-${part}.yaml`))),
  );
  const [clean, copying, mixed] = parts;
  expect([copying?.initial, mixed?.initial]).toEqual([clean?.out, copying?.out]);
  const { steps = 0, batchSize = 0 } = clean?.stages.find(({ data }) => data === 'clean') ?? {};
  expect(copying?.stages[0]).toMatchObject({ data: 'clean', first: steps * batchSize });
});

it('quickstart.yaml is planned by a dry run, which refuses a policy that does not exist', async () => {
  const planned = await longhaul(['train', quickstart, '--dry-run'], examples);
  expect(planned.code, planned.stderr).toBe(0);
  expect(planned.stdout).toMatch(
    /^swe-mini \(4000 tasks\): 25 steps of \d+ tasks × 4 samples = \d+ rollouts, up to \d+ until enough groups vary$/mu,
  );
  const refused = await longhaul(['train', quickstart, '--dry-run', '--set', 'policy.base=/no/such/policy'], examples);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('policy.base');
});

it('eval.yaml is planned by a dry run, which refuses a policy and tasks that do not exist', async () => {
  const config = join(examples, 'eval.yaml');
  const planned = await longhaul(['eval', config, '--dry-run'], examples);
  const asText = await longhaul(['eval', config, '--dry-run', '--set', 'policies=[starter, "latest:nope"]'], examples);
  expect(asText.stdout).toMatch(/^not checked: that there is a checkpoint for latest:nope$/m);
  expect(asText.stdout).toMatch(/^not checked: that eval .+ has the same settings$/m);
  expect(planned.code, planned.stderr).toBe(0);
  expect(planned.stdout).toMatch(/^120 rollouts; pass@1, pass@2, pass@4; 95% intervals/mu);
  for (const [set, field] of [
    ['policies=[/no/such/policy]', 'policies.policy'],
    ['tasks.name=nope', 'tasks.name'],
    ['passAt=[5]', 'passAt'],
    ['sampling=[{}, {}]', 'sampling'],
  ] as const) {
    const refused = await longhaul(['eval', config, '--dry-run', '--set', set], examples);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(`${field}: `);
  }
});

it('eval-endpoint.yaml is planned by a dry run, which reads a tokenizer from the folder of the file and refuses one that does not exist', async () => {
  const config = join(examples, 'eval-endpoint.yaml');
  const planned = await longhaul(['eval', config, '--dry-run'], examples);
  expect(planned.code, planned.stderr).toBe(0);
  expect(planned.stdout).toMatch(/^policy server: my-model at http:\/\/127\.0\.0\.1:8000\/v1, mode chat, no key$/mu);
  expect(planned.stdout).toMatch(/^48 rollouts; pass@1; 95% intervals/mu);
  const served = (tokenizer: string) => [
    '--set',
    `policies=[{name: s, endpoint: {baseUrl: "http://host/v1", model: m, mode: tokens, tokenizer: ${tokenizer}}}]`,
  ];
  const byIds = await longhaul(['eval', config, '--dry-run', '--json', ...served('starter')], join(examples, '..'));
  expect(JSON.parse(byIds.stdout)).toMatchObject({
    policies: [{ endpoint: { tokenizer: join(examples, 'starter') } }],
  });
  const refused = await longhaul(['eval', config, '--dry-run', ...served('nowhere')], examples);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('policies.s.endpoint.tokenizer: ');
});

it.each(['go-shopping', 'write-in-turns'])('%s.yaml: a known solution scores 1, and nothing scores 0', async (name) => {
  const config = join(examples, 'environments', `${name}.yaml`);
  const checked = await longhaul(['check', config, '--oracle', '--tasks', '2'], examples);
  expect(checked.code, checked.stderr).toBe(0);
  expect(checked.stdout).toContain('oracle: 4 of 4 scored 1 · empty: 4 of 4 scored 0');
});

it('mini-swe-agent-eval.yaml is planned with a folder of packages and a policy; its starter’s recipe is read', async () => {
  const folder = join(examples, 'mini-swe-agent');
  const sets = [`tasks.options.packages=${folder}`, `policies=[${join(examples, 'calculator-starter')}]`];
  const args = ['eval', join(examples, 'mini-swe-agent-eval.yaml'), '--dry-run'];
  const planned = await longhaul([...args, ...sets.flatMap((one) => ['--set', one])], examples);
  expect(planned.code, planned.stderr).toBe(0);
  expect(planned.stdout).toMatch(/^128 rollouts; /mu);
  // Beside records of one chat: those of the recipe are written by a command, and are not in the repository.
  const place = await mkdtemp(join(tmpdir(), 'longhaul-starter-'));
  const chat = {
    messages: [
      { role: 'user', content: '1 + 1' },
      { role: 'assistant', content: '2' },
    ],
  };
  await mkdir(join(place, 'mini', 'records'), { recursive: true });
  for (const name of ['clean', 'mixed'])
    await writeFile(join(place, 'mini', 'records', `${name}.jsonl`), `${JSON.stringify(chat)}\n`);
  await symlink(join(examples, 'calculator-starter'), join(place, 'calculator-starter'));
  await copyFile(join(folder, 'starter.yaml'), join(place, 'mini', 'starter.yaml'));
  expect((await readSftConfig(join(place, 'mini', 'starter.yaml'))).stages).toHaveLength(2);
  await rm(place, { recursive: true });
});
