/**
 * The files of an eval's folder, written from the store alone: writing them again gives the same files. `results.json`
 * has the numbers, `rollouts.jsonl` what they were counted from, `pass-at-k.svg` the picture.
 */

import { join } from 'node:path';
import type { Store } from '../../../store/store.ts';
import { writeAtomically } from '../../../store/atomic-write.ts';
import { failureOf, membersOf } from '../../../reports/evaluation/cell-members.ts';
import { evalKeys, type EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import { type EvalResults, evalResultsOf } from '../../../reports/evaluation/eval-results.ts';
import { passAtKPlot } from '../../../reports/evaluation/pass-at-k-plot.ts';
import { taskIdsOf } from '../../../config/sweep-config.ts';

async function rolloutLines({ eval: id, config, policies }: EvalRecord, store: Store): Promise<string[]> {
  const tasks = taskIdsOf(config.tasks);
  const lines: string[] = [];
  for (const { name: policy } of policies) {
    for (const { name: sampling, samples } of config.sampling) {
      for (const member of await membersOf(id, `${policy}/${sampling}`, tasks, samples, store)) {
        if (!member.outcome) continue;
        const { rollout, reward, passed, turns, finish, reason } = member.outcome;
        const line = {
          policy,
          sampling,
          task: member.task,
          sample: member.sample,
          rollout,
          reward,
          passed,
          failure: failureOf(member) ?? null,
          turns,
          finish,
          reason,
        };
        lines.push(`${JSON.stringify(line)}\n`);
      }
    }
  }
  return lines;
}

/** Writes `results.json` and, once the sweep has ended, the other files. */
export async function writeEvalFiles(id: string, store: Store): Promise<EvalResults> {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  const results = await evalResultsOf(id, store);
  if (!record || !results) throw new Error(`Eval ${id} is not in the store`);
  await writeAtomically(join(record.evalDir, 'results.json'), `${JSON.stringify(results, null, 2)}\n`);
  if (results.status === 'running') return results;
  await writeAtomically(join(record.evalDir, 'rollouts.jsonl'), (await rolloutLines(record, store)).join(''));
  if (results.cells.length > 0) await writeAtomically(join(record.evalDir, 'pass-at-k.svg'), passAtKPlot(results));
  return results;
}
