/**
 * Hunts timers that the server puts aside: a timer that is put aside fires minutes late under load, and its row and all
 * later ones stay in the database, where every look for the next timer reads them again. The server is real.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { expect, it } from 'vitest';
import { choosePort } from '../../../stack/temporal-server/free-port.ts';
import { startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

const WORKFLOWS = 400;

/** The sum of a counter over its label sets that contain all of `labels`. */
function counted(metrics: string, name: string, ...labels: readonly string[]): number {
  return metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) && labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

it('no timer is put aside, however many are due within a second', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-timers-'));
  const port = await choosePort([]);
  const server = await startPrivateServer(dir, [`--metrics-port=${port}`]);
  const connection = await Connection.connect({ address: server.address });
  try {
    const { workflow } = new Client({ connection });
    // Nobody works on them: what ends each is the timer of its run, some milliseconds after the one before.
    const options = { taskQueue: 'nobody', workflowRunTimeout: '3s' } as const;
    for (let i = 0; i < WORKFLOWS; i += 10)
      await Promise.all(
        Array.from({ length: 10 }, (_, k) => workflow.start('none', { ...options, workflowId: `timed-${i + k}` })),
      );
    const metricsNow = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const fired = async () => counted(await metricsNow(), 'task_latency_count', 'WorkflowRunTimeout');
    await expect.poll(fired, { timeout: 120_000, interval: 200 }).toBeGreaterThanOrEqual(WORKFLOWS);
    const metrics = await metricsNow();
    const readBy = (reader: number) =>
      counted(metrics, 'task_latency_load_count', 'Timer', `queue_reader_id="${reader}"`);
    expect(readBy(0)).toBeGreaterThanOrEqual(WORKFLOWS);
    expect(readBy(1)).toBe(0);
    expect(counted(metrics, 'queue_actions', 'TimerQueueProcessor', 'reader_stuck')).toBe(0);
  } finally {
    await connection.close();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}, 240_000);
