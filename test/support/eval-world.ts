/** A world whose evals are kept in a real store: rollouts are scripted, and graded ones leave their outcome there. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSweepActivities } from '../../activities/evaluation/sweep-activities.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator.ts';
import { keys, type OutcomeRecord } from '../../activities/records.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import type { RewardActivities } from '../../workflows/activities.ts';
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

export async function startEvalWorld(address: string, dir: string, script: Script): Promise<EvalWorld> {
  const store = openSqliteStore(join(dir, 'store'));
  const describePolicy = async () => ({ parameters: 1, vocabulary: 2 });
  const orchestrator = createOrchestratorActivities({ store, temporal: { address, namespace: 'default', ui: '' }, describePolicy });
  const world = await startWorld(address, script, (scripted) => ({
    orchestrator,
    sweeps: createSweepActivities({ store }),
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

/** A directory that passes for a policy; `weights` tell one from another. */
export function makePolicy(dir: string, weights = 'w'): string {
  mkdirSync(dir, { recursive: true });
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'longhaul.json']) writeFileSync(join(dir, name), '{}');
  writeFileSync(join(dir, 'model.safetensors'), weights);
  return dir;
}
