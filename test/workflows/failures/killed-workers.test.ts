/**
 * Hunts other weights after kills: a worker that is killed each time that it does a certain thing, more often than this
 * may fail, only costs time. Server, store and worker processes are real, and killed by SIGKILL; the sandbox, the model
 * and the grader are empty. Not asserted: what is counted; see test/activities/tries.test.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { RETRIES } from '../../../protocol/failure-policy.ts';
import { type StoreWorld, useStoreWorld } from '../../support/use-store-world.ts';
import { type OtherWaits, SOONER } from '../../support/workflow-world.ts';

const nobody = {} as never;
let world: StoreWorld;
const useWorld = (waits: OtherWaits) =>
  beforeAll(
    ((own) => () => {
      world = own;
    })(useStoreWorld(() => ({ init: nobody, gpu: nobody, agentRun: nobody, reward: nobody }), [], waits)),
  );
const program = fileURLToPath(new URL('fixtures/dying-worker.ts', import.meta.url));
let end = () => {};

/** Starts a new worker for each killed one, as the supervisor does. */
function serve(deaths: readonly string[]): { killed: number } {
  const seen = { killed: 0 };
  let child: ChildProcess | undefined;
  let ends = false;
  end = () => {
    ends = true;
    child?.kill('SIGKILL');
  };
  const start = () => {
    child = spawn(process.execPath, [program, world.server.address, join(world.dir, 'store'), ...deaths], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    child.once('exit', (_code, signal) => {
      if (ends) return;
      if (signal === 'SIGKILL') seen.killed += 1;
      start();
    });
  };
  start();
  return seen;
}

afterEach(() => end());

const KILLS = 6;
const start = (id: string, agent: object = {}) =>
  world.start('rollout', id, {
    task: 'empty-train-0',
    policy: { uri: 'file:///p', version: 1 },
    agent: { maxTurns: 5, ...agent },
  });
/** All records of a rollout, whatever its id. */
const left = async (id: string) =>
  (await world.store.list('')).flatMap(({ key, value }) =>
    key.includes(`${id}#1`) || key === `outcome:${id}`
      ? [[key.replaceAll(id, 'ID'), JSON.parse(JSON.stringify(value).replaceAll(id, 'ID'))] as const]
      : [],
  );

describe('found after 5 s of silence', () => {
  useWorld(SOONER);

  it('a rollout whose worker is killed at each grading, sampling or tool call ends as an undisturbed one, whatever may fail', async () => {
    const places = {
      reward: 'reward:killed/reward#1',
      sampling: 'model:generate:killed/sampling#1/00001',
      tools: 'tool:killed/tools#1/1/0',
    };
    const times = { reward: KILLS, sampling: 2, tools: 2 };
    const seen = serve([
      `${places.reward}=${times.reward}`,
      `${places.sampling}=${times.sampling}`,
      `${places.tools}=${times.tools}`,
    ]);
    const handles = await Promise.all(
      ['killed/reward', 'killed/sampling', 'killed/tools', 'left-alone'].map((id) => start(id)),
    );
    const results = (await Promise.all(handles.map((handle) => handle.result()))) as RolloutResult[];
    for (const result of results) expect(result).toMatchObject({ status: 'graded', reward: 1, attempt: 1, turns: 2 });
    expect(KILLS).toBeGreaterThan(RETRIES.reward.attempts);
    expect(seen.killed).toBe(times.reward + times.sampling + times.tools);
    for (const [place, key] of Object.entries(places))
      expect(await world.store.begun(key), place).toBeGreaterThan(times[place as keyof typeof times]);
    const undisturbed = (await left('left-alone')).map(([key, value]) => [key, { ...value, cost: 0 }]);
    for (const id of ['killed/reward', 'killed/sampling', 'killed/tools'])
      expect((await left(id)).map(([key, value]) => [key, { ...value, cost: 0 }])).toEqual(undisturbed);
  }, 600_000);
});

describe('found after 15 s of silence', () => {
  // Within this time another worker is there: a wait for one would count as a rollout's own time.
  useWorld({});

  it('a rollout whose worker is killed gets back the time that it takes to detect this, however near its deadline is', async () => {
    // Detected by 15 s of silence.
    const agent = { deadlineSeconds: 12 };
    const seen = serve(['model:generate:short/sampling#1/00001=1', 'tool:short/tools#1/1/0=1']);
    const results: RolloutResult[] = [];
    // One after the other: a wait for a worker that was killed for another rollout would count as a rollout's own time.
    for (const id of ['short/sampling', 'short/tools', 'short/left-alone'])
      results.push((await (await start(id, agent)).result()) as RolloutResult);
    for (const result of results)
      expect(result).toMatchObject({ status: 'graded', reward: 1, attempt: 1, turns: 2, finish: 'finish-tool' });
    expect(seen.killed).toBe(2);
    const undisturbed = (await left('short/left-alone')).map(([key, value]) => [key, { ...value, cost: 0 }]);
    for (const id of ['short/sampling', 'short/tools'])
      expect((await left(id)).map(([key, value]) => [key, { ...value, cost: 0 }])).toEqual(undisturbed);
  }, 600_000);
});
