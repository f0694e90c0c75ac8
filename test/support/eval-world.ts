/** A world whose evals are kept in a real store: rollouts are scripted, and graded ones leave their outcome there. */

import { TaskLoader } from '../../tasks/task-loader.ts';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { createSweepActivities } from '../../activities/orchestrator/sweep/sweep-activities.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator/orchestrator.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import type { RewardActivities } from '../../protocol/activities.ts';
import { ScriptedEnvironment } from '../activities/scripted-parts.ts';
import type { ScriptedActivities, Script } from './scripted-activities.ts';
import { startWorld, type World } from './workflow-world.ts';

export interface EvalWorld extends World {
  readonly store: Store;
}

/** As the real grader does it: the outcome is in the store before it is reported. */
function recording({ reward }: ScriptedActivities, store: Store): RewardActivities {
  return {
    async computeReward(input) {
      const verdict = await reward.computeReward(input);
      if (verdict.code !== 'graded') return verdict;
      const { rollout, task, attempt, turns, finish } = input;
      const outcome = { rollout, task, attempt, turns, finish, status: 'graded' as const, failure: null };
      await store.putOnce<OutcomeRecord>(keys.outcome(rollout), { ...outcome, ...verdict });
      return verdict;
    },
  };
}

async function startEvalWorld(address: string, dir: string, script: Script): Promise<EvalWorld> {
  const store = openSqliteStore(join(dir, 'store'));
  const describePolicy = async () => ({ parameters: 1, vocabulary: 2 });
  const orchestrator = createOrchestratorActivities({
    store,
    tasks: new TaskLoader(store),
    temporal: { address, namespace: 'default', ui: '' },
    describePolicy,
  });
  const world = await startWorld(address, script, (scripted) => ({
    orchestrator,
    sweeps: createSweepActivities({ store, tasks: new TaskLoader(store) }),
    reward: recording(scripted, store),
  }));
  return {
    ...world,
    store,
    async stop() {
      await world.stop();
      await store.close();
    },
  };
}

export interface EvalWorldInUse {
  readonly dir: string;
  /** Of Temporal; read it, and `now`, inside of tests and hooks only. */
  readonly address: string;
  readonly now: EvalWorld;
  /** What the rollouts do from now on; emptied before each test. */
  script: Script;
}

/** A server and an eval world for all tests of a file, with the environment `toy`. */
export function useEvalWorld(): EvalWorldInUse {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-eval-world-'));
  const use: { dir: string; address: string; now: EvalWorld; script: Script } = {
    dir,
    address: '',
    now: undefined as unknown as EvalWorld,
    script: {},
  };
  let stop: () => Promise<void> = async () => undefined;
  beforeAll(async () => {
    defineEnvironment(new ScriptedEnvironment('toy'));
    const server = await startPrivateServer(join(dir, 'temporal'));
    stop = () => server.stop();
    use.address = server.address;
    use.now = await startEvalWorld(server.address, dir, {
      before: (activity, input) => use.script.before?.(activity, input),
      reward: (rollout) => use.script.reward?.(rollout) ?? 1,
    });
  });
  beforeEach(() => {
    use.script = {};
    use.now.log.calls.length = 0;
  });
  afterAll(async () => {
    await (use.now as EvalWorld | undefined)?.stop();
    await stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return use;
}

/** A directory that passes for a policy; `weights` tell one from another. */
export function makePolicy(dir: string, weights = 'w'): string {
  mkdirSync(dir, { recursive: true });
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'longhaul.json'])
    writeFileSync(join(dir, name), '{}');
  writeFileSync(join(dir, 'model.safetensors'), weights);
  return dir;
}
