/** Hunts a disturbed run with other tokens, rewards or drops that counts as the same because its weights are. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { differingRollouts } from '../../chaos/traces.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';

let dir: string;
let store: Store;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-traces-'));
  store = openSqliteStore(dir);
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

/** A rollout of two turns, graded or failed in the attempt given. */
async function rollout(run: string, name: string, sampled: number[], over: Partial<OutcomeRecord> = {}): Promise<void> {
  const id = `train/${run}/${name}`;
  const outcome: OutcomeRecord = {
    rollout: id,
    task: 't',
    attempt: 1,
    turns: 2,
    status: 'graded',
    reward: 1,
    passed: true,
    finish: 'finish-tool',
    failure: null,
    reason: '',
    ...over,
  };
  await store.putOnce(keys.outcome(id), outcome);
  const turn = {
    version: 0,
    appended: [1],
    reset: false,
    logprobs: [-1],
    end: 'stop' as const,
    parsed: { kind: 'no-call' as const, content: '' },
  };
  const attempt = { run, rollout: id, attempt: outcome.attempt, task: 't' };
  for (const n of [1, 2])
    await store.putOnce<GenerateRecord>(keys.generate(attempt, n), { ...turn, sampled: [...sampled, n] });
}

it('finds tokens, rewards and failures that differ, and rollouts that are in one run alone; a later attempt is the same', async () => {
  for (const run of ['one', 'other']) {
    await rollout(run, 'eval-0/same/0', [7], { attempt: run === 'one' ? 1 : 2 });
    await rollout(run, 'eval-0/tokens/0', [run.length]);
    await rollout(run, 'step-1/reward/0', [7], { reward: run.length });
    await rollout(run, 'step-1/masked/0', [7], run === 'one' ? { status: 'failed', reward: null } : {});
  }
  await rollout('other', 'step-2/alone/0', [7]);
  expect(await differingRollouts('one', 'other', store)).toEqual([
    'eval-0/tokens/0',
    'step-1/masked/0',
    'step-1/reward/0',
    'step-2/alone/0',
  ]);
});
