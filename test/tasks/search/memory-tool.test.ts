/**
 * The tool `memory` in rollouts as workers run them: its calls are recorded, and each call knows those before it, also of
 * its own message and after a summary. Why: notes that are lost are worse than none.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Here, openHere } from '../../../cli/check/roll-out-here.ts';
import type { Message } from '../../../protocol/message.ts';
import type { Work } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';

const { signal } = new AbortController();
const notes = (given: Record<string, unknown>) => ({ name: 'memory', arguments: given });
const said = (...toolCalls: NonNullable<Extract<Message, { role: 'assistant' }>['toolCalls']>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls,
});
let here: Here;
let work: Work | undefined;

beforeAll(async () => {
  defineEnvironment({
    name: 'takes-notes',
    open: () =>
      Promise.resolve({
        digest: '1',
        splits: { test: 1 },
        load: () =>
          Promise.resolve({
            messages: [{ role: 'user' as const, content: 'Take notes.' }],
            tools: ['memory', 'next_with_summary', 'finish'],
            gradedIn: 'none' as const,
            grade: (_ctx: unknown, given: Work) => {
              work = given;
              return Promise.resolve({ code: 'graded' as const, reward: 1, passed: true, reason: '' });
            },
            oracle: () =>
              Promise.resolve([
                said(
                  notes({ command: 'create', path: '/memories/a', file_text: 'one' }),
                  notes({ command: 'insert', path: '/memories/a', insert_line: 1, insert_text: 'two' }),
                  notes({ command: 'view', path: '/memories/a' }),
                ),
                said({ name: 'next_with_summary', arguments: { summary: 'I took notes.' } }),
                said(notes({ command: 'view', path: '/memories' })),
                said({ name: 'finish', arguments: { answer: 'done' } }),
              ]),
          }),
      }),
  });
  const source = { environment: 'takes-notes', options: {}, folder: '/' };
  const agent = { maxTurns: 10, toolTimeoutSeconds: 10 };
  here = await openHere({ 'takes-notes': source }, undefined, agent, {}, {}, () => undefined);
}, 60_000);
afterAll(async () => {
  await here.close();
});

it('each call knows the ones before it', async () => {
  expect(await here.rollOut('takes-notes-test-0', 'oracle', signal)).toMatchObject({ phase: 'graded', reward: 1 });
  const answers = (work?.transcript ?? []).filter(({ role }) => role === 'tool').map(({ content }) => content);
  expect(answers).toEqual([
    'Wrote /memories/a.',
    'Changed /memories/a.',
    '   1 one\n   2 two',
    'Files in /memories:\n/memories/a (7 characters)',
  ]);
  expect(work?.transcript.findLast(({ role }) => role === 'tool')?.segment).toBe(2);
});
