/**
 * The tool `memory`: its files come from the recorded calls alone. Hunts notes that are lost or doubled with a worker, and
 * paths that leave the folder.
 */
import { expect, it } from 'vitest';
import { MemoryFiles, LIMITS } from '../../../../agents/tools/notes/memory-files.ts';
import { memory } from '../../../../agents/tools/notes/memory.ts';
import type { WorkerServices } from '../../../../agents/tools/tool.ts';
import type { ToolCall } from '../../../../protocol/message.ts';

const call = (given: Record<string, unknown>): ToolCall => ({ name: 'memory', arguments: given });

/** Runs the calls one after the other, each in a worker that knows nothing but the earlier calls. */
async function told(...calls: ReadonlyArray<Record<string, unknown>>): Promise<string[]> {
  const earlier: ToolCall[] = [];
  const answers: string[] = [];
  for (const given of calls) {
    const known = [...earlier];
    const worker = { earlierCalls: () => Promise.resolve(known) } as Partial<WorkerServices> as WorkerServices;
    const { content } = await memory.run(call(given), undefined, { callId: 'c', timeoutMs: 1000, worker });
    answers.push(content);
    earlier.push(call(given));
  }
  return answers;
}

it('files are made, changed, moved and removed, and failed calls change nothing', async () => {
  const answers = await told(
    { command: 'view', path: '/memories' },
    { command: 'create', path: '/memories/a.txt', file_text: 'one\ntwo' },
    { command: 'str_replace', path: '/memories/a.txt', old_str: 'one', new_str: '$& first' },
    { command: 'str_replace', path: '/memories/a.txt', old_str: 'nothing', new_str: 'x' },
    { command: 'insert', path: 'a.txt', insert_line: '1', insert_text: 'between' },
    { command: 'rename', path: '/memories/a.txt', new_path: '/memories/b/c.txt' },
    { command: 'view', path: '/memories/b/c.txt', view_range: [1, 2] },
    { command: 'view', path: '/memories' },
    { command: 'delete', path: '/memories/b' },
    { command: 'view', path: '/memories/b/c.txt' },
  );
  expect(answers).toEqual([
    '/memories is empty.',
    'Wrote /memories/a.txt.',
    'Changed /memories/a.txt.',
    'Error: old_str is not in /memories/a.txt: copy it exactly.',
    'Changed /memories/a.txt.',
    'Renamed /memories/a.txt to /memories/b/c.txt.',
    '   1 $& first\n   2 between',
    'Files in /memories:\n/memories/b/c.txt (20 characters)',
    'Deleted /memories/b/c.txt.',
    'Error: /memories/b/c.txt does not exist. There are no files yet.',
  ]);
});

it.each([
  '/etc/passwd',
  '/memories/../etc',
  '../x',
  '/memories-other',
  '/memories/a\u0000b',
  `/memories/${'a'.repeat(300)}`,
])('the path %j is refused', async (path) => {
  const [answer] = await told({ command: 'create', path, file_text: 'x' });
  expect(answer).toMatch(/^Error: path/);
});

it('what a command needs is named', async () => {
  expect(await told({ command: 'create', path: 'a' })).toEqual(['Error: memory needs the parameter file_text.']);
  expect(await told({ command: 'look', path: 'a' })).toEqual([
    expect.stringMatching(/^Error: command "look": must be one of view/),
  ]);
});

it('number and size are bounded, and a folder is no file', () => {
  const files = new MemoryFiles();
  const create = (path: string, text = 'x') => files.apply({ command: 'create', path, text });
  expect(() => create('big', 'x'.repeat(LIMITS.fileCharacters + 1))).toThrow(/at most 65536/);
  for (let n = 0; n < LIMITS.files; n += 1) create(`dir/${n}`);
  expect(() => create('one-more')).toThrow(/there is no room/);
  expect(() => create('dir')).toThrow(/is a folder/);
  expect(() => create('dir/1/below')).toThrow(/is a file/);
  create('dir/1', 'replaced');
  expect(files.apply({ command: 'view', path: 'dir/1' })).toBe('   1 replaced');
});
