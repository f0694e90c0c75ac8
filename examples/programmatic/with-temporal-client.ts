/**
 * The same with Temporal's own client, which exists in several languages: `node with-temporal-client.ts RUN
 * POLICY_DIRECTORY`. The names of workflow, queue, query, signals and update are Longhaul's interface.
 * `TEMPORAL_ADDRESS` must name the server, as `npx longhaul up --detach` prints it: another folder's stack may have the
 * usual port.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';

interface Status {
  readonly phase: string;
  readonly step: number;
  readonly policyVersion: number;
}

const [run = 'with-temporal-client', base = fileURLToPath(new URL('../starter', import.meta.url))] =
  process.argv.slice(2);
const address = process.env['TEMPORAL_ADDRESS'];
if (!address) throw new Error('TEMPORAL_ADDRESS is not set: give the address that npx longhaul ps prints');
const connection = await Connection.connect({ address });
const client = new Client({ connection });

const handle = await client.workflow.start('train', {
  taskQueue: 'orchestrator',
  workflowId: `train/${run}`,
  args: [
    {
      run,
      policy: { base },
      task: { name: 'swe-mini' },
      steps: 2,
      batch: { tasks: 2, samples: 2 },
      agent: { maxTurns: 4, maxContextTokens: 700 },
      sampling: { maxTokens: 120 },
      evaluation: { tasks: 4, greedy: false },
      algorithm: { learningRate: 2e-4 },
    },
  ],
});

const status = () => handle.query<Status>('status');
await handle.signal('pause');
while ((await status()).phase !== 'paused') await sleep(200);

const { algorithm } = await handle.executeUpdate<{ algorithm: { learningRate: number } }, [Record<string, number>]>(
  'configure',
  { args: [{ 'algorithm.learningRate': 1e-4 }] },
);
await handle.signal('resume');

// A query returns the current state, and an ended workflow still answers: the last query comes after the end.
const steps: number[] = [];
for (let running = true; running;) {
  running = (await handle.describe()).status.name === 'RUNNING';
  const { step } = await status();
  while (steps.length < step) steps.push(steps.length + 1);
  if (running) await sleep(200);
}
const { policy } = (await handle.result()) as { policy: { version: number } };
console.log(JSON.stringify({ run, learningRate: algorithm.learningRate, steps, policyVersion: policy.version }));
await connection.close();
