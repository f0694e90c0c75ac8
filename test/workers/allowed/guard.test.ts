/**
 * Hunts inputs of workflows that lead a worker to folders of this machine that nobody allowed: by an
 * absolute path, by links, by an adapter's base, or over other files. Not asserted: that real workers use the guard
 * (`test/e2e/endpoint-rollout.test.ts` asserts that, and for those of a stack `test/e2e/steering.test.ts`).
 */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ApplicationFailure } from '@temporalio/common';
import { allowEval, allowRollout, allowRun } from '../../../cli/connect/allow-named.ts';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { guardPlaces } from '../../../workers/allowed/guard.ts';
import { sayWord } from '../../../workers/allowed/local-words.ts';
import { readPlaces } from '../../../workers/allowed/places.ts';
import { commonOptions } from '../../../workers/run-worker.ts';
import type { WorkerConnection } from '../../../connection/temporal-connection.ts';
import type { SweepConfig } from '../../../protocol/eval.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';

let dir: string;
let project: string;
let outside: string;
let home: string;
const starter = join(packageRoot, 'examples', 'starter');

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-places-')));
  [project, outside] = [join(dir, 'project'), join(dir, 'outside')];
  home = join(project, '.longhaul');
  for (const folder of [home, join(outside, 'model'), join(project, 'model')]) mkdirSync(folder, { recursive: true });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** The result of an activity in a worker of the project's stack: `begun`, or the field for which it is refused. */
async function of(activity: string, args: readonly unknown[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const places = readPlaces({ LONGHAUL_CACHE: join(dir, 'cache'), HF_HOME: join(dir, 'hf'), ...env }, project);
  const interceptors = guardPlaces(places)({ info: { activityType: activity } } as never);
  const ended = interceptors.inbound?.execute?.(
    { args: [...args], headers: {} },
    async () => 'begun',
  ) as Promise<string>;
  return ended.catch((failure: ApplicationFailure) => {
    expect(failure).toMatchObject({ type: 'UserInputError', nonRetryable: true });
    return failure.message.split(':')[0] ?? '';
  });
}

const generate = (policy: object, env?: NodeJS.ProcessEnv) => of('generate', [{ policy }], env);
const openRun = (config: object, env?: NodeJS.ProcessEnv) =>
  of('openRun', [{ policy: { base: starter }, dir: join(project, 'runs'), ...config }, 'mine'], env);

describe('every worker', () => {
  it.each([
    ['of a cluster of its own', {}],
    [
      'of a stack, which watches whose server it works for',
      { watch: { interceptor: { execute: (input: unknown, next: (input: unknown) => unknown) => next(input) } } },
    ],
  ])('%s looks at what an input names', async (_which, more) => {
    const { interceptors } = commonOptions(
      { namespace: 'default', address: '127.0.0.1:1', ...more } as unknown as WorkerConnection,
      1,
    );
    const made = (interceptors?.activity ?? []).map(
      (make) => make({ info: { activityType: 'generate' } } as never).inbound?.execute,
    );
    // The interceptor that adds the run to log lines is first.
    expect(made.length).toBe('watch' in more ? 3 : 2);
    type Execute = (input: object) => Promise<string>;
    const first = made.reduceRight<Execute>(
      (next, execute) => (input) => execute?.(input as never, next as never) as Promise<string>,
      async () => 'begun',
    );
    await expect(first({ args: [{ policy: { uri: 'file:///etc' } }], headers: {} })).rejects.toMatchObject({
      type: 'UserInputError',
    });
    expect(await first({ args: [{ policy: { uri: fileUri(starter) } }], headers: {} })).toBe('begun');
  });
});

describe('a folder that is read', () => {
  it('lies in the project, the home, the package or a place that was named', async () => {
    for (const allowed of [
      join(project, 'model'),
      join(home, 'x'),
      starter,
      join(dir, 'cache', 'm'),
      join(dir, 'hf', 'hub', 'm'),
    ])
      expect([allowed, await generate({ uri: fileUri(allowed) })]).toEqual([allowed, 'begun']);
    for (const other of [join(outside, 'model'), '/etc', '/', join(project, '..', 'outside', 'model'), `${project}-2`])
      expect([other, await generate({ uri: fileUri(other) })]).toEqual([other, 'policy.uri']);
    expect(await generate({ dir: join(outside, 'model') }, { LONGHAUL_PLACES: `/nowhere:${outside}` })).toBe('begun');
    expect(await generate({ endpoint: { tokenizer: join(outside, 'model') } })).toBe('policy.endpoint.tokenizer');
    expect(await of('checkEndpoint', [{ endpoint: { tokenizer: '/etc' }, field: 'policies.x.endpoint' }])).toBe(
      'policies.x.endpoint.tokenizer',
    );
  });

  it('is looked at behind its links, and an adapter at its base', async () => {
    symlinkSync(join(outside, 'model'), join(project, 'link'));
    expect(await generate({ uri: fileUri(join(project, 'link')) })).toBe('policy.uri');
    writeFileSync(
      join(project, 'model', 'adapter_config.json'),
      JSON.stringify({ base_model_name_or_path: join(outside, 'model') }),
    );
    expect(await generate({ uri: fileUri(join(project, 'model')) })).toBe('policy.uri');
    expect(await generate({ dir: join(project, 'model') }, { LONGHAUL_PLACES: outside })).toBe('begun');
  });

  it('is any of those that a configuration of a run or an eval can name', async () => {
    const model = join(outside, 'model');
    expect(await openRun({})).toBe('begun');
    expect(await openRun({ policy: { base: 'hub:org/name@main' } })).toBe('begun');
    expect(await openRun({ policy: { base: model } })).toBe('policy.base');
    expect(await openRun({ algorithm: { critic: { base: model } } })).toBe('algorithm.critic.base');
    for (const [policy, field] of [
      [model, 'policies.1'],
      [{ policy: model }, 'policies.1'],
      [{ endpoint: { tokenizer: model } }, 'policies.1.endpoint.tokenizer'],
      ['latest:run', 'begun'],
      ['run@3', 'begun'],
    ] as const) {
      expect(
        await of('openSweep', [{ given: { policies: ['starter', policy] }, eval: 'e' }], {
          LONGHAUL_RUN_PLACES: process.cwd(),
        }),
      ).toBe(field);
    }
  });
});

describe('a folder that is written', () => {
  it('lies in the project, in what is not hidden there, or in a place that was named for it', async () => {
    expect(await openRun({ dir: outside })).toBe('dir');
    expect(await openRun({ dir: outside }, { LONGHAUL_PLACES: outside })).toBe('dir');
    expect(await openRun({ dir: outside }, { LONGHAUL_RUN_PLACES: outside })).toBe('begun');
    for (const closed of [
      home,
      join(home, 'store'),
      join(project, '.git'),
      join(project, 'node_modules', 'x'),
      packageRoot,
    ])
      expect([closed, await openRun({ dir: closed })]).toEqual([closed, 'dir']);
    expect(await of('openSweep', [{ given: { dir: outside, policies: [] }, eval: 'e' }])).toBe('dir');
    for (const activity of ['closeRun', 'recordStep', 'recordChanges', 'recordEvaluation', 'update', 'planUpdate'])
      expect(await of(activity, [{ runDir: join(outside, 'r') }])).toBe('runDir');
    for (const activity of ['forwardBackward', 'optimStep'])
      expect(await of(activity, [{ dir: join(outside, 'r') }])).toBe('dir');
    expect(await of('closeRun', [{ runDir: join(project, 'runs', 'mine') }])).toBe('begun');
  });

  it('is one of several where a scheduled eval has its time in its name', async () => {
    for (const other of ['nightly-2026-01-30T06+00+00Z', 'mine'])
      mkdirSync(join(project, 'evals', other), { recursive: true });
    const scheduled = (folder: string) =>
      of('openSweep', [{ given: { dir: join(project, folder), policies: [] }, eval: 'nightly-2026-01-31T06:00:00Z' }]);
    expect(await scheduled('evals')).toBe('begun');
    mkdirSync(join(project, 'other', 'nightly-2026-01-31T06+00+00Z', 'src'), { recursive: true });
    expect(await scheduled('other')).toBe('dir');
  });

  it('has no files of something else', async () => {
    const run = join(project, 'runs', 'mine');
    mkdirSync(join(run, 'checkpoints'), { recursive: true });
    for (const name of ['config.yaml', '.DS_Store']) writeFileSync(join(run, name), '');
    expect(await openRun({})).toBe('begun');
    writeFileSync(join(run, 'main.py'), '');
    expect(await openRun({})).toBe('dir');
  });

  it('may have files of its user once a run or an eval has begun there', async () => {
    const [run, sweep] = [join(project, 'runs', 'mine'), join(project, 'evals', 'nightly-2026-01-30T06+00+00Z')];
    for (const folder of [run, sweep]) mkdirSync(join(folder, '.ipynb_checkpoints'), { recursive: true });
    const openEval = () =>
      of('openSweep', [{ given: { dir: join(project, 'evals'), policies: [] }, eval: 'nightly-2026-01-30T06:00:00Z' }]);
    expect([await openRun({}), await openEval()]).toEqual(['dir', 'dir']);
    writeFileSync(join(run, 'config.yaml'), `run: mine\ndir: ${join(project, 'runs')}\n`);
    writeFileSync(join(sweep, 'config.yaml'), `eval: nightly-2026-01-30T06:00:00Z\ndir: ${join(project, 'evals')}\n`);
    expect([await openRun({}), await openEval()]).toEqual(['begun', 'begun']);
    for (const [name, dir] of [
      ['other', join(project, 'runs')],
      ['mine', project],
      ['mine', ''],
    ]) {
      writeFileSync(join(run, 'config.yaml'), `run: ${name}\ndir: ${JSON.stringify(dir)}\n`);
      expect([name, dir, await openRun({})]).toEqual([name, dir, 'dir']);
    }
  });
});

describe('an activity that a client makes up', () => {
  const runDir = () => join(project, 'runs', 'mine');

  it('has numbers where numbers are parts of paths', async () => {
    const away = '1/../../../../outside';
    for (const activity of ['update', 'planUpdate', 'recordEvaluation'])
      expect([activity, await of(activity, [{ runDir: runDir(), step: away }])]).toEqual([activity, 'step']);
    expect(await of('recordStep', [{ runDir: runDir(), record: { step: away } }])).toBe('record.step');
    for (const [field, value] of [
      ['round', '0/../..'],
      ['shard', [1]],
      ['round', -1],
    ] as const)
      expect(await of('forwardBackward', [{ dir: runDir(), [field]: value }])).toBe(field);
    expect(await of('forwardBackward', [{ dir: runDir(), step: 1, round: 0, shard: 3 }])).toBe('begun');
  });

  it('says of no folder elsewhere that it is the policy of a step', async () => {
    expect(
      await of('recordStep', [
        { runDir: runDir(), record: { step: 1 }, policy: { uri: fileUri(join(outside, 'model')) } },
      ]),
    ).toBe('policy.uri');
    expect(
      await of('recordStep', [
        { runDir: runDir(), record: { step: 1 }, policy: { uri: fileUri(join(runDir(), 'checkpoints', 'step-1')) } },
      ]),
    ).toBe('begun');
  });
});

describe('what the command line was given', () => {
  it('the workers of its folder may use, at once', async () => {
    const around = { env: {}, cwd: project };
    const model = join(outside, 'model');
    expect(await generate({ uri: fileUri(model) })).toBe('policy.uri');
    await allowRollout(around, { task: 't', policy: { uri: fileUri(model), version: 0 } });
    expect(await generate({ uri: fileUri(model) })).toBe('begun');
    const config = {
      run: 'mine',
      dir: join(outside, 'runs'),
      policy: { base: join(outside, 'base') },
      algorithm: {},
    } as RunConfig;
    expect(await openRun(config)).toBe('dir');
    await allowRun(around, config);
    expect(await openRun(config)).toBe('begun');
    const sweep = {
      eval: 'e',
      dir: join(outside, 'evals'),
      policies: [{ name: 'x', policy: join(outside, 'third') }],
    } as unknown as SweepConfig;
    expect(await of('openSweep', [{ given: sweep, eval: 'e' }])).toBe('dir');
    await allowEval(around, sweep);
    expect(await of('openSweep', [{ given: sweep, eval: 'e' }])).toBe('begun');
  });

  it('does not open the home, nor what cannot be read as a word', async () => {
    sayWord(home, { kind: 'write', path: project });
    expect(await openRun({ dir: home })).toBe('dir');
    writeFileSync(join(home, 'allowed', `${'0'.repeat(64)}.json`), '{"kind":"read","path":"/","also":1}');
    writeFileSync(join(home, 'allowed', 'summary.json'), '{"kind":"read","path":"/"}');
    expect(await generate({ uri: 'file:///etc' })).toBe('policy.uri');
  });
});
