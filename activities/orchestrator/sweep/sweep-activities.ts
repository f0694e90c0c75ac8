/** The `orchestrator` queue's part for evals: an activity that runs twice leaves the same records and files. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Store } from '../../../store/store.ts';
import type { SweepActivities } from '../../../protocol/activities.ts';
import type { CellHeadline, PlannedChunk, SweepCell } from '../../../protocol/eval.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { withFailureMapping } from '../../failure-mapping.ts';
import { withHeartbeat } from '../../heartbeat.ts';
import { type RolloutEnd, recordEnds } from '../../../reports/rollout-ends.ts';
import { failureOf, type Member, membersOf } from '../../../reports/evaluation/cell-members.ts';
import {
  type CellPlan,
  type CellResult,
  type EvalEnd,
  evalKeys,
  type EvalRecord,
  evalRun,
} from '../../../reports/evaluation/eval-records.ts';
import { writeEvalFiles } from './eval-folder.ts';
import { openSweep, type SweepDeps } from './open-sweep.ts';
import { planChunks } from './plan-chunks.ts';
import { scoreCell } from '../../../reports/evaluation/score-cell.ts';
import { settleEnds } from './settle-ends.ts';
import { taskIdsOf } from '../../../config/sweep-config.ts';

async function recordOf(id: string, store: Store): Promise<EvalRecord> {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  if (!record) throw new Error(`Eval ${id} is not in the store`);
  return record;
}

async function membersOfCell(id: string, { name, samples }: SweepCell, store: Store): Promise<Member[]> {
  return membersOf(id, name, taskIdsOf((await recordOf(id, store)).config.tasks), samples, store);
}

/** Made once per round: rollouts that are graded during the round must not change its chunks. */
async function planOf(id: string, round: number, cell: SweepCell, store: Store): Promise<CellPlan> {
  const key = evalKeys.plan(id, cell.name, round);
  const planned = await store.get<CellPlan>(key);
  if (planned) return planned;
  const members = await membersOfCell(id, cell, store);
  const graded = new Set(
    members.filter((m) => failureOf(m) === undefined).map(({ task, sample }) => `${task}/${sample}`),
  );
  const tasks = taskIdsOf((await recordOf(id, store)).config.tasks);
  const chunks = planChunks(tasks, cell.samples, (task, sample) => graded.has(`${task}/${sample}`));
  return store.putOnce<CellPlan>(key, { chunks, total: members.length, known: graded.size });
}

async function nextChunk(
  id: string,
  round: number,
  cell: SweepCell,
  index: number,
  store: Store,
): Promise<PlannedChunk> {
  const { chunks, total, known } = await planOf(id, round, cell, store);
  const chunk = chunks[index];
  return { ...(chunk ? { chunk } : {}), total, known };
}

function endOf(run: string, member: Member, at: string): RolloutEnd[] {
  const { outcome } = member;
  if (!outcome) return [];
  const failure = failureOf(member);
  const end = { run, rollout: outcome.rollout, attempt: outcome.attempt, at };
  return [failure === undefined ? { ...end, event: 'evaluated' } : { ...end, event: 'masked', detail: failure }];
}

async function summariseCell(
  id: string,
  round: number,
  cell: SweepCell,
  { store, tasks }: SweepDeps,
): Promise<CellHeadline> {
  const { config, catalog } = await recordOf(id, store);
  const members = await membersOfCell(id, cell, store);
  const at = new Date().toISOString();
  await recordEnds(
    store,
    members.flatMap((member) => endOf(evalRun(id), member, at)),
  );
  const { passAt, bootstrap, seed } = config;
  const families = new Map<string, string>();
  for (const { task } of members)
    if (!families.has(task)) families.set(task, (await tasks.load({ task, ...(catalog && { catalog }) })).family);
  const familyOf = (task: string) => families.get(task) ?? '';
  const names = { cell: cell.name, policy: cell.policyName, sampling: cell.samplingName };
  const scored = scoreCell(members, { ...names, samples: cell.samples, passAt, bootstrap, seed, familyOf });
  const { byFamily: _byFamily, ...headline } = await store.putOnce<CellResult>(
    evalKeys.cell(id, round, cell.name),
    scored,
  );
  await writeEvalFiles(id, store);
  return headline;
}

async function close(id: string, round: number, end: EvalEnd, store: Store): Promise<void> {
  await settleEnds(id, `eval-${end.status}`, store);
  await store.putOnce<EvalEnd>(evalKeys.end(id, round), end);
  const { cells, status } = await writeEvalFiles(id, store);
  const whole = status === 'completed' && cells.every(({ rollouts, graded }) => rollouts === graded);
  // With every rollout graded no further round needs the checkpoints that were kept for this eval.
  if (whole) await rm(join((await recordOf(id, store)).evalDir, 'policies'), { recursive: true, force: true });
}

export function createSweepActivities(deps: SweepDeps): SweepActivities {
  const { store } = deps;
  const withMappingAndHeartbeat = <T>(body: () => Promise<T>): Promise<T> =>
    withFailureMapping(() => withHeartbeat(body));
  return {
    openSweep: (input) => withMappingAndHeartbeat(() => openSweep(input, deps)),
    nextChunk: ({ eval: id, round, cell, index }) =>
      withMappingAndHeartbeat(() => nextChunk(id, round, cell, index, store)),
    summariseCell: ({ eval: id, round, cell }) => withMappingAndHeartbeat(() => summariseCell(id, round, cell, deps)),
    recordBudgets: ({ eval: id, key, changes }) =>
      withMappingAndHeartbeat(async () => {
        await store.putOnce(keys.changes(evalRun(id), key), changes);
      }),
    closeSweep: ({ eval: id, round, status, message, workedMs }) =>
      withMappingAndHeartbeat(() =>
        close(
          id,
          round,
          {
            status,
            finishedAt: new Date().toISOString(),
            message: message ?? '',
            ...(workedMs !== undefined && { workedMs }),
          },
          store,
        ),
      ),
  };
}
