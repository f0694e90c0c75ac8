/**
 * Hunts schedules that do not fire, that pile sweeps up, or that keep failing every night: on a real server, with the
 * verbs as users call them. Rollouts are scripted.
 */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import type { RunRecord, StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { runCommandLine } from '../../../cli/run.ts';
import type { ScheduleDetails, ScheduleView } from '../../../cli/eval/eval-schedules.ts';
import { makePolicy, useEvalWorld } from '../../support/eval-world.ts';
import { sandboxLost } from '../../support/scripted-activities.ts';

const world = useEvalWorld();
const { dir } = world;
beforeAll(() => {
  vi.stubEnv('LONGHAUL_HOME', join(dir, 'home'));
  vi.stubEnv('TEMPORAL_ADDRESS', world.address);
  makePolicy(join(dir, 'policy'));
  const settings = {
    dir: join(dir, 'evals'),
    tasks: { name: 'toy', count: 2 },
    policies: [{ name: 'p', policy: 'policy' }],
    bootstrap: { resamples: 100 },
  };
  writeFileSync(join(dir, 'small.yaml'), stringify(settings));
});
afterAll(() => void vi.unstubAllEnvs());

async function schedule(...args: string[]) {
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: dir,
    signal: new AbortController().signal,
  };
  const exitCode = await runCommandLine(['schedule', ...args, '--json'], around);
  return { exitCode, document: JSON.parse(out) as ScheduleDetails & { error?: Record<string, unknown> } };
}

let name = '';
const create = async (...args: string[]) => {
  const made = await schedule('create', join(dir, 'small.yaml'), '--name', name, ...args);
  expect(made.exitCode, JSON.stringify(made.document)).toBe(0);
  return made.document;
};
beforeEach((context) => {
  name = `s${context.task.id.replaceAll(/\W/g, '')}`;
});
afterEach(async () => {
  world.script = {};
  await schedule('delete', name);
});

/** Errors: after two minutes, with what the schedule has done instead. */
async function until(holds: (details: ScheduleDetails) => boolean): Promise<ScheduleDetails> {
  for (const deadline = Date.now() + 120_000; ; await sleep(300)) {
    const { document } = await schedule('show', name);
    if (holds(document)) return document;
    if (Date.now() > deadline) throw new Error(`not within two minutes: ${JSON.stringify(document)}`);
  }
}
const completed = ({ recent }: ScheduleDetails) => recent.filter(({ status }) => status === 'completed');

it('fires by its interval, each time as a sweep of its own, and shows the results', async () => {
  expect(await create('--every', '1s', '--catch-up', '10s')).toMatchObject({
    name,
    when: 'every 1s',
    overlap: 'SKIP',
    catchUpSeconds: 10,
    pauseOnFailure: true,
    paused: false,
  });
  const details = await until((now) => completed(now).length >= 2);
  const [last, before] = completed(details);
  expect(new Set(details.recent.map(({ workflowId }) => workflowId)).size).toBe(details.recent.length);
  expect(last?.workflowId).toMatch(new RegExp(`^eval/${name}-\\d{4}-\\d\\d-\\d\\dT`));
  expect(before?.result).toMatchObject({
    eval: before?.workflowId.slice('eval/'.length),
    rollouts: 2,
    graded: 2,
    cells: [{ cell: 'p/t1', passAt: { '1': { mean: 1 } } }],
  });
});

it('skips a firing while the previous sweep is running', async () => {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  world.script = {
    before: async (activity) => {
      if (activity === 'generate') await held;
    },
  };
  await create('--every', '1s');
  const { recent } = await until(({ skipped }) => skipped >= 1);
  expect(recent.filter(({ status }) => status === 'running').length).toBe(1);
  expect(recent.length).toBe(1);
  release();
  await until((now) => completed(now).length >= 1);
});

it('fires by hand, unless the previous sweep is running, and reports which of the two', async () => {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  world.script = {
    before: async (activity) => {
      if (activity === 'generate') await held;
    },
  };
  await create('--cron', '0 6 1 1 *');
  const first = (await schedule('trigger', name)).document as unknown as Record<string, unknown>;
  const sweep = expect.stringMatching(new RegExp(`^eval/${name}-`)) as string;
  expect(first).toEqual({ schedule: name, done: `fires now: ${String(first['sweep'])}`, fired: true, sweep });
  expect((await schedule('trigger', name)).document).toEqual({
    schedule: name,
    done: `does not fire, since ${String(first['sweep'])} is running (overlap SKIP)`,
    fired: false,
    sweep: first['sweep'],
  });
  release();
  const { recent } = await until((now) => completed(now).length >= 1);
  expect(recent).toHaveLength(1);
});

it('warns of a run that does not exist, since its name may be misspelled', async () => {
  const policies = (name: string) => [
    '--set',
    `policies=[{name: p, policy: "${name}"}, {name: q, policy: policy}]`,
    '--cron',
    '0 6 * * *',
    '--paused',
  ];
  const { warnings } = (await create(...policies('latest:lvie'))) as unknown as { warnings: string[] };
  expect(warnings).toEqual([
    expect.stringMatching(
      /^policy latest:lvie: there is no run lvie now \(there is no run here\); a sweep that starts before/,
    ),
  ]);
  await schedule('delete', name);
  expect(await create('--every', '1h', '--paused')).toMatchObject({ warnings: [] });
});

it('warns if it never fires', async () => {
  const { warnings } = (await create('--cron', '0 0 31 2 *')) as unknown as { warnings: string[] };
  expect(warnings).toEqual(['the schedule never fires (cron 0 0 31 2 * UTC)']);
});

it('pauses when a sweep fails, reports why, and continues when it is resumed', async () => {
  world.script = {
    before: (activity) => {
      if (activity === 'agentRun') throw sandboxLost();
    },
  };
  await create('--every', '1s');
  const failed = await until(({ paused }) => paused);
  expect(failed.note).not.toBe('');
  expect(failed.recent.map(({ status, message }) => [status, message])).toContainEqual([
    'failed',
    expect.stringMatching(/2 sandbox-lost of 2/),
  ]);
  world.script = {};
  expect((await schedule('resume', name, '--note', 'mended')).exitCode).toBe(0);
  const mended = await until((now) => completed(now).length >= 1);
  expect(mended).toMatchObject({ paused: false, note: 'mended' });
});

it('resolves latest:RUN when the sweep starts, and protects that policy from retention', async () => {
  const { store } = world.now;
  const policy = { base: join(dir, 'policy'), parameters: 1, vocabulary: 1 };
  await store.putOnce<RunRecord>(keys.run('live'), {
    run: 'live',
    runDir: dir,
    seed: 1,
    startedAt: '',
    policy,
    task: { name: 'toy', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
  const publish = async (step: number) => {
    const checkpoint = makePolicy(join(dir, 'checkpoints', `step-${step}`), `weights ${step}`);
    await store.putOnce<StepEntry>(keys.step('live', step), {
      record: { step },
      policy: { uri: fileUri(checkpoint), version: step },
      sha256: '',
      keep: false,
    } as StepEntry);
    return checkpoint;
  };
  const first = await publish(1);
  // The run continues, and removes its checkpoint while the sweep is running.
  world.script = {
    before: (activity) => {
      if (activity === 'generate') rmSync(first, { recursive: true, force: true });
    },
  };
  await create(
    '--cron',
    '0 6 * * *',
    '--timezone',
    'Europe/Berlin',
    '--jitter',
    '1m',
    '--set',
    'policies=[{name: p, policy: "latest:live"}]',
  );
  const fire = async () => expect((await schedule('trigger', name)).document).toMatchObject({ fired: true });
  await fire();
  const [one] = completed(await until((now) => completed(now).length >= 1));
  await publish(2);
  // Right after the first sweep's end, of which the server learns a little later.
  await fire();
  const [two] = completed(await until((now) => completed(now).length >= 2));
  const steps = await Promise.all(
    [one, two].map(
      async (sweep) => (await store.get<{ policies: unknown[] }>(`eval:${sweep?.workflowId.slice(5)}`))?.policies[0],
    ),
  );
  expect(steps).toMatchObject([
    { from: { run: 'live', step: 1 }, ref: { version: 1 } },
    { from: { run: 'live', step: 2 }, ref: { version: 2 } },
  ]);
});

it('fires for the times of a range, one after the other', async () => {
  await create('--cron', '0 * * * *', '--paused', '--note', 'only by hand');
  expect(
    (await schedule('backfill', name, '--from', '2026-01-01T00:30:00Z', '--to', '2026-01-01T02:30:00Z')).exitCode,
  ).toBe(0);
  const { recent } = await until((now) => completed(now).length >= 2);
  expect(recent.map(({ workflowId }) => workflowId).sort()).toEqual(
    [1, 2].map((hour) => `eval/${name}-2026-01-01T0${hour}:00:00Z`),
  );
  expect((await schedule('list')).document as unknown as ScheduleView[]).toContainEqual(
    expect.objectContaining({ name, paused: true, note: 'only by hand' }),
  );
});

it('a paused schedule is shown as paused, without a next time', async () => {
  await create('--cron', '0 6 * * *');
  const said = async (...args: string[]) => {
    let out = '';
    await runCommandLine(['schedule', ...args], {
      out: (text) => {
        out += text;
      },
      err: () => undefined,
      env: process.env,
      cwd: dir,
      signal: new AbortController().signal,
    });
    return out;
  };
  expect(await said('show', name)).toMatch(/\n {2}on\n[^]*\n {2}next: 2/);
  expect(await said('pause', name, '--note', 'the policy moves')).toBe(`schedule ${name} is paused\n`);
  expect(await said('show', name)).toMatch(
    new RegExp(
      `\\n {2}paused: the policy moves \\(npx longhaul schedule resume ${name}\\)\\n[^]*\\n {2}next: none while it is paused\\n`,
    ),
  );
  expect(await said('resume', name)).toBe(`schedule ${name} is resumed\n`);
  expect(await said('show', name)).toMatch(/\n {2}on: resumed from the command line\n/);
});

it.each([
  [['show', 'nope'], 'NAME', 'nope'],
  [['pause', 'nope'], 'NAME', 'nope'],
  [['trigger', 'nope'], 'NAME', 'nope'],
  [['create', 'small.yaml'], '--cron', ''],
  [['create', 'small.yaml', '--every', 'often'], '--every', 'often'],
  [['create', 'small.yaml', '--cron', 'at dawn'], '--cron', 'at dawn'],
  [['create', 'small.yaml', '--every', '1h', '--set', 'policies=[gone]'], 'policies.gone', join(dir, 'gone')],
  [['backfill', 'nope', '--from', 'then', '--to', '2026-01-01'], '--from', 'then'],
])('%j is bad input', async (args, field, value) => {
  const { exitCode, document } = await schedule(...args.map((arg) => (arg === 'small.yaml' ? join(dir, arg) : arg)));
  expect(document.error).toMatchObject({ field, value });
  expect(exitCode).toBe(2);
});
