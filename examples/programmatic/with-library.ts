/**
 * Starts, steers, follows and awaits a run with the library: `node with-library.ts RUN POLICY_DIRECTORY`.
 * It needs the stack of this folder: `npx longhaul up --detach`. `TEMPORAL_ADDRESS` names another server.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Longhaul } from 'longhaul';

const [run = 'with-library', base = fileURLToPath(new URL('../starter', import.meta.url))] = process.argv.slice(2);
const longhaul = await Longhaul.connect();

const handle = await longhaul.train({
  run,
  policy: { base },
  task: { name: 'swe-mini' },
  steps: 2,
  batch: { tasks: 2, samples: 2 },
  agent: { maxTurns: 4, maxContextTokens: 700 },
  sampling: { maxTokens: 120 },
  evaluation: { tasks: 4, greedy: false },
  algorithm: { learningRate: 2e-4 },
});

// Rollouts stop before their next turn; their sandboxes are kept.
await handle.pause();
while ((await handle.status()).phase !== 'paused') await sleep(200);

const { algorithm } = await handle.configure({ 'algorithm.learningRate': 1e-4 });
await handle.resume();

const steps: number[] = [];
for await (const { step, passRate } of handle.steps()) {
  console.error(`step ${step}: pass rate ${passRate}`);
  steps.push(step);
}
const { policy } = await handle.result();
console.log(JSON.stringify({ run, learningRate: algorithm.learningRate, steps, policyVersion: policy.version }));
await longhaul.close();
