/** Hunts steps that a program misses because the body of its loop (an export, an evaluation) takes long. */

import type { Client } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { RunHandle } from '../../client/run-handle.ts';
import { StepsMissed } from '../../client/new-steps.ts';

const STEPS = 60;

/** A run that makes as many steps as it is told to, and keeps its last 20. */
function fakeRun() {
  const run = { step: 1, looks: 0 };
  const describe = async () => ({ status: { name: run.step < STEPS ? 'RUNNING' : 'COMPLETED' } });
  const query = async () => {
    run.looks += 1;
    const first = Math.max(1, run.step - 19);
    return {
      step: run.step,
      steps: STEPS,
      recent: Array.from({ length: run.step - first + 1 }, (_, i) => ({ step: first + i })),
    };
  };
  return {
    run,
    handle: new RunHandle(
      {
        workflow: { getHandle: () => ({ describe, query }) },
        withDeadline: (_at: number, work: () => Promise<unknown>) => work(),
      } as unknown as Client,
      'r',
    ),
  };
}

it('are all told, however long the body of the loop takes for one', async () => {
  const { run, handle } = fakeRun();
  const seen: number[] = [];
  for await (const { step } of handle.steps()) {
    seen.push(step);
    if (step > 1) continue;
    for (const until of [20, 40, STEPS]) {
      const { looks } = run;
      run.step = until;
      for (let waited = 0; run.looks === looks && waited < 3_000; waited += 10) await sleep(10);
    }
  }
  expect(seen).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
});

it('or the loop ends with those that could not be seen', async () => {
  const { run, handle } = fakeRun();
  const steps = handle.steps();
  await steps.next();
  run.step = 30;
  await expect(steps.next()).rejects.toEqual(new StepsMissed('r', 2, 10));
});
