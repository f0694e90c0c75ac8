/**
 * Hunts other weights after kills: a worker that is killed each time that it does a certain thing, more often than this
 * may fail, only costs time. Server, store and worker processes are real, and killed by SIGKILL; the sandbox, the model
 * and the grader are empty. Not asserted: what is counted; see test/activities/tries.test.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { RETRIES } from '../../../protocol/failure-policy.ts';
import { type StoreWorld, useStoreWorld } from '../../support/use-store-world.ts';
import { type OtherWaits, SOONER } from '../../support/workflow-world.ts';

const nobody = {} as never;
/** A server and a store per test: the tests run beside each other, since they do little but wait for silence. */
function useWorld(waits: OtherWaits): StoreWorld {
  const world = useStoreWorld(() => ({ init: nobody, gpu: nobody, agentRun: nobody, reward: nobody }), [], waits);
  // Registered after the server's stop, to run before it: hooks run in reverse order.
  afterAll(() => ends.get(world)?.());
  return world;
}
const program = fileURLToPath(new URL('fixtures/dying-worker.ts', import.meta.url));
/** Each world's end of its worker processes. */
const ends = new Map<StoreWorld, () => void>();

/** Starts a new worker for each killed one, as the supervisor does, until its world ends. */
function serve(world: StoreWorld, deaths: readonly string[]): { killed: number } {
  const seen = { killed: 0 };
  let child: ChildProcess | undefined;
  let isOver = false;
  ends.set(world, () => {
    isOver = true;
    child?.kill('SIGKILL');
  });
  const start = () => {
    child = spawn(process.execPath, [program, world.server.address, join(world.dir, 'store'), ...deaths], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    child.once('exit', (_code, signal) => {
      if (isOver) return;
      if (signal === 'SIGKILL') seen.killed += 1;
      start();
    });
  };
  start();
  return seen;
}

const KILLS = 6;
const start = (world: StoreWorld, id: string, agent: object = {}) =>
  world.start('rollout', id, {
    task: 'empty-train-0',
    policy: { uri: 'file:///p', version: 1 },
    agent: { maxTurns: 5, ...agent },
  });
/** All records of a rollout, whatever its id. */
const left = async (world: StoreWorld, id: string) =>
  (await world.store.list('')).flatMap(({ key, value }) =>
    key.includes(`${id}#1`) || key === `outcome:${id}`
      ? [[key.replaceAll(id, 'ID'), JSON.parse(JSON.stringify(value).replaceAll(id, 'ID'))] as const]
      : [],
  );

describe.concurrent('found after 5 s of silence', () => {
  const world = useWorld(SOONER);

  it('a rollout whose worker is killed at each grading, sampling or tool call ends as an undisturbed one, whatever may fail', async () => {
    const places = {
      reward: 'reward:killed/reward#1',
      sampling: 'model:generate:killed/sampling#1/00001',
      tools: 'tool:killed/tools#1/1/0',
    };
    const times = { reward: KILLS, sampling: 2, tools: 2 };
    const seen = serve(world, [
      `${places.reward}=${times.reward}`,
      `${places.sampling}=${times.sampling}`,
      `${places.tools}=${times.tools}`,
    ]);
    const handles = await Promise.all(
      ['killed/reward', 'killed/sampling', 'killed/tools', 'left-alone'].map((id) => start(world, id)),
    );
    const results = (await Promise.all(handles.map((handle) => handle.result()))) as RolloutResult[];
    for (const result of results) expect(result).toMatchObject({ status: 'graded', reward: 1, attempt: 1, turns: 2 });
    expect(KILLS).toBeGreaterThan(RETRIES.reward.attempts);
    expect(seen.killed).toBe(times.reward + times.sampling + times.tools);
    for (const [place, key] of Object.entries(places))
      expect(await world.store.begun(key), place).toBeGreaterThan(times[place as keyof typeof times]);
    const undisturbed = (await left(world, 'left-alone')).map(([key, value]) => [key, { ...value, cost: 0 }]);
    for (const id of ['killed/reward', 'killed/sampling', 'killed/tools'])
      expect((await left(world, id)).map(([key, value]) => [key, { ...value, cost: 0 }])).toEqual(undisturbed);
  }, 600_000);
});

describe.concurrent('found after 15 s of silence', () => {
  // Within this time another worker is there: a wait for one would count as a rollout's own time.
  const world = useWorld({});

  it('a rollout whose worker is killed gets back the time that it takes to detect this, however near its deadline is', async () => {
    // Detected by 15 s of silence.
    const agent = { deadlineSeconds: 12 };
    const seen = serve(world, ['model:generate:short/sampling#1/00001=1', 'tool:short/tools#1/1/0=1']);
    const results: RolloutResult[] = [];
    // One after the other: a wait for a worker that was killed for another rollout would count as a rollout's own time.
    for (const id of ['short/sampling', 'short/tools', 'short/left-alone'])
      results.push((await (await start(world, id, agent)).result()) as RolloutResult);
    for (const result of results)
      expect(result).toMatchObject({ status: 'graded', reward: 1, attempt: 1, turns: 2, finish: 'finish-tool' });
    expect(seen.killed).toBe(2);
    const undisturbed = (await left(world, 'short/left-alone')).map(([key, value]) => [key, { ...value, cost: 0 }]);
    for (const id of ['short/sampling', 'short/tools'])
      expect((await left(world, id)).map(([key, value]) => [key, { ...value, cost: 0 }])).toEqual(undisturbed);
  }, 600_000);
});
