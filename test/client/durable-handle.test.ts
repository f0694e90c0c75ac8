/** Hunts a handle on what does not exist that fails without saying what to do. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { expect, it } from 'vitest';
import { EvalHandle } from '../../client/durable-handle.ts';
import { RunHandle } from '../../client/run-handle.ts';

const lost = () =>
  Promise.reject(new WorkflowNotFoundError('workflow not found for ID: eval/gone', 'eval/gone', undefined));
const client = {
  withDeadline: (_: number, work: () => Promise<unknown>) => work(),
  workflow: {
    getHandle: () => ({ query: lost, describe: lost, signal: lost, cancel: lost, result: lost, executeUpdate: lost }),
  },
} as unknown as Client;

it.each(['status', 'isRunning', 'pause', 'resume', 'cancel', 'result'] as const)(
  '%s of an eval that does not exist names it and the remedy once, and keeps the class',
  async (method) => {
    const error: unknown = await new EvalHandle(client, 'gone')[method]().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(WorkflowNotFoundError);
    expect((error as Error).message).toMatch(/^eval\/gone: .*; start it, or see .*: npx longhaul runs --all$/);
  },
);

it.each([
  ['pause', (run: RunHandle) => run.pause('step')],
  ['configure', (run: RunHandle) => run.configure({ steps: 3 })],
  ['steps', (run: RunHandle) => run.steps().next()],
])('%s of a run that does not exist does so too', async (_, call) => {
  const error: unknown = await call(new RunHandle(client, 'gone')).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(WorkflowNotFoundError);
  expect((error as Error).message).toMatch(/^train\/gone: .*; start it, or see .*: npx longhaul runs --all$/);
});
