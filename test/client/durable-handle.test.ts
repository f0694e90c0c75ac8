/** Hunts a handle on what does not exist that fails without saying what to do. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { expect, it } from 'vitest';
import { EvalHandle } from '../../client/durable-handle.ts';

const lost = () =>
  Promise.reject(new WorkflowNotFoundError('workflow not found for ID: eval/gone', 'eval/gone', undefined));
const client = {
  withDeadline: (_: number, work: () => Promise<unknown>) => work(),
  workflow: { getHandle: () => ({ query: lost, describe: lost, signal: lost, cancel: lost, result: lost }) },
} as unknown as Client;

it.each(['status', 'isRunning', 'pause', 'resume', 'cancel', 'result'] as const)(
  '%s of an eval that does not exist names it and the remedy once, and keeps the class',
  async (method) => {
    const error: unknown = await new EvalHandle(client, 'gone')[method]().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(WorkflowNotFoundError);
    expect((error as Error).message).toMatch(/^eval\/gone: .*; start it, or see .*: npx longhaul runs --all$/);
  },
);
