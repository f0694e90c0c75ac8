/**
 * Hunts output that takes longer to clean than to print (a worker cleans the output of all its sandboxes, and must stay
 * responsive), and observations without a limit.
 */

import { describe, expect, it } from 'vitest';

import { bashObservation } from '../../../agents/tools/shell/bash.ts';
import { editor } from '../../../agents/tools/editor/editor.ts';
import { normalizeOutput } from '../../../agents/tools/observation.ts';
import { search } from '../../../agents/tools/search.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';

const MANY = 1 << 18;
const ended = { exitCode: 0, signal: null, droppedBytes: 0, timedOut: false, outOfMemory: false, durationMs: 1 };

describe('many of one character, and another one after them', () => {
  it.each([
    ['returns of the carriage', '\r', 'x'],
    ['new lines', '\n', `${'\n'.repeat(MANY)}x`],
    ['begins of an escape', '\u001b[', ''],
    ['begins of a title', '\u001b]', ''],
    ['blanks', ' ', `${' '.repeat(MANY)}x`],
  ])('%s', (_, one, left) => {
    const output = `${one.repeat(MANY)}x`;
    expect(normalizeOutput(output).length).toBe(left.length);
    expect(bashObservation({ ...ended, output }, 1000, MANY * 2)).toBe(left === '' ? '[no output]' : left);
  });
});

it('a line is what a terminal finally shows: overwritten text is removed, and the kind of line end does not matter', () => {
  expect(normalizeOutput('10%\r50%\r100%\r\r\nnext\r\n\r\nlast\r')).toBe('100%\nnext\n\nlast');
});

it.each([
  ['new lines', '\n', '\n'],
  ['one character, and half as many of it', 'a', 'a'.repeat(MANY / 2)],
])(
  'what is to be replaced is looked for in a file of many times %s no longer than anybody reads where it is',
  async (_, one, old) => {
    const sandbox = {
      written: async () => undefined,
      read: async () => ({ kind: 'file', content: Buffer.from(one.repeat(MANY)) }),
    } as unknown as Sandbox;
    const call = {
      name: 'str_replace_editor',
      arguments: { command: 'str_replace', path: 'f', old_str: old, new_str: 'x' },
    };
    const { content } = await editor.run(call, sandbox, { callId: 'c', timeoutMs: 1000 });
    expect(content).toMatch(/^Error: old_str is in f more than 20 times \(lines 1, [\d, ]+\); make it longer\.$/u);
  },
);

it('errors of a search are cut to the same limit as its matches', async () => {
  const output = Array.from({ length: 5000 }, (_, n) => `grep: file${n}: Permission denied\n`).join('');
  const sandbox = { exec: async () => ({ ...ended, exitCode: 2, output }) } as unknown as Sandbox;
  const { content, refused } = await search.run({ name: 'search', arguments: { query: 'x' } }, sandbox, {
    callId: 'c',
    timeoutMs: 1000,
  });
  expect([content.length < 8100, refused]).toEqual([true, true]);
  expect(content).toMatch(/^Error: file0: Permission denied\n.*characters left out.*file4999: Permission denied$/su);
});
