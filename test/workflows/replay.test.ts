/**
 * Golden histories replayed against today's workflow code: running workflows must be able to continue after an upgrade.
 * Not asserted: that histories written by other SDK versions exist; each dependency bump runs this gate.
 */
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import { quietTemporal } from '../support/quiet-temporal.ts';

const folder = fileURLToPath(new URL('../histories', import.meta.url));
const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
const read = (name: string) => {
  const { workflowId, history } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as {
    workflowId: string;
    history: { events: Array<Record<string, unknown>> };
  };
  return { workflowId, history };
};

describe('golden histories', () => {
  let codePath: string;
  beforeAll(async () => {
    quietTemporal();
    codePath = await buildWorkflowBundle();
  });
  const replay = (history: { events: unknown[] }, workflowId: string) =>
    Worker.runReplayHistory({ workflowBundle: { codePath } }, history, workflowId);

  it('cover the ways that rollouts, batches, runs, evals and lanes of the Tinker API go', () => {
    expect(names.length).toBeGreaterThanOrEqual(44);
  });

  it.each(names)('%s replays', async (name) => {
    const { workflowId, history } = read(name);
    await replay(history, workflowId);
  });

  it('whose activities were on another queue replay: a queue may change', async () => {
    const { workflowId, history } = read('rollout-happy.json');
    const text = JSON.stringify(history);
    const moved = text.replaceAll('"taskQueue":{"name":"gpu"', '"taskQueue":{"name":"elsewhere"');
    expect(moved).not.toBe(text);
    await replay(JSON.parse(moved) as typeof history, workflowId);
  });

  it('differ detectably from a history of other code', async () => {
    const { workflowId, history } = read('rollout-happy.json');
    const other = JSON.parse(JSON.stringify(history).replaceAll('"agentRun"', '"somethingElse"')) as typeof history;
    await expect(replay(other, workflowId)).rejects.toThrow(DeterminismViolationError);
  });
});
