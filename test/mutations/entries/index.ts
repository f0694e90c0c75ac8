/** All mutations, in the order of the table in docs/reliability.md. */

import type { Mutation } from '../mutation.ts';
import { betweenRecords } from './between-records.ts';
import { breaker } from './breaker.ts';
import { checkpoints } from './checkpoints.ts';
import { critics } from './critics.ts';
import { disks } from './disks.ts';
import { endpoints } from './endpoints.ts';
import { fullHistories } from './full-histories.ts';
import { graders } from './graders.ts';
import { inputs } from './inputs.ts';
import { lateExecutions } from './late-executions.ts';
import { limits } from './limits.ts';
import { lostSandboxes } from './lost-sandboxes.ts';
import { lostWorkers } from './lost-workers.ts';
import { pruning } from './pruning.ts';
import { sandboxOwners } from './sandbox-owners.ts';
import { server } from './server.ts';
import { sharedPool } from './shared-pool.ts';
import { stuck } from './stuck.ts';
import { supervisor } from './supervisor.ts';
import { updates } from './updates.ts';
import { upgrades } from './upgrades.ts';
import { workers } from './workers.ts';
import { wrongStack } from './wrong-stack.ts';

export const MUTATIONS: readonly Mutation[] = [
  ...workers,
  ...lostWorkers,
  ...server,
  ...wrongStack,
  ...supervisor,
  ...updates,
  ...critics,
  ...checkpoints,
  ...lostSandboxes,
  ...graders,
  ...lateExecutions,
  ...endpoints,
  ...inputs,
  ...betweenRecords,
  ...sandboxOwners,
  ...disks,
  ...pruning,
  ...stuck,
  ...limits,
  ...fullHistories,
  ...breaker,
  ...sharedPool,
  ...upgrades,
];
