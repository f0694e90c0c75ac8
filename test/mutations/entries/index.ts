/** All mutations, in the order of the table in docs/reliability.md. */

import type { Mutation } from '../mutation.ts';
import { agents } from './agents.ts';
import { backends } from './backends.ts';
import { betweenRecords } from './store/between-records.ts';
import { breaker } from './breaker.ts';
import { checkpoints } from './store/checkpoints.ts';
import { conversations } from './conversations.ts';
import { critics } from './training/critics.ts';
import { disks } from './store/disks.ts';
import { endpoints } from './endpoints.ts';
import { engines } from './engines.ts';
import { environments } from './environments.ts';
import { fullHistories } from './full-histories.ts';
import { graders } from './sandboxes/graders.ts';
import { inputs } from './inputs.ts';
import { judges } from './judges.ts';
import { lateExecutions } from './processes/late-executions.ts';
import { limits } from './limits.ts';
import { lostSandboxes } from './sandboxes/lost-sandboxes.ts';
import { lostWorkers } from './processes/lost-workers.ts';
import { programs } from './programs.ts';
import { pruning } from './store/pruning.ts';
import { readModel } from './store/read-model.ts';
import { sandboxOwners } from './sandboxes/sandbox-owners.ts';
import { server } from './processes/server.ts';
import { sharedPool } from './processes/shared-pool.ts';
import { stuck } from './processes/stuck.ts';
import { mcp } from './mcp.ts';
import { supervisor } from './sandboxes/supervisor.ts';
import { samplers } from './samplers.ts';
import { shards } from './training/shards.ts';
import { tinker } from './tinker.ts';
import { temperatures } from './training/temperatures.ts';
import { updates } from './training/updates.ts';
import { upgrades } from './upgrades.ts';
import { workers } from './processes/workers.ts';
import { supervised } from './supervised.ts';
import { wrongStack } from './processes/wrong-stack.ts';

export const MUTATIONS: readonly Mutation[] = [
  ...workers,
  ...lostWorkers,
  ...server,
  ...wrongStack,
  ...supervisor,
  ...updates,
  ...shards,
  ...temperatures,
  ...critics,
  ...environments,
  ...agents,
  ...conversations,
  ...supervised,
  ...checkpoints,
  ...lostSandboxes,
  ...graders,
  ...programs,
  ...lateExecutions,
  ...backends,
  ...endpoints,
  ...samplers,
  ...judges,
  ...mcp,
  ...inputs,
  ...betweenRecords,
  ...sandboxOwners,
  ...disks,
  ...pruning,
  ...readModel,
  ...stuck,
  ...limits,
  ...fullHistories,
  ...breaker,
  ...engines,
  ...sharedPool,
  ...tinker,
  ...upgrades,
];
