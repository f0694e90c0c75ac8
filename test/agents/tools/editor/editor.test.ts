/** The editor in a real sandbox: exact edits, short stable answers, and a repeated call that never edits twice. */

import { beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { runToolCall } from '../../../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from '../../../sandboxes/harness.ts';

const bench = await openBench();
let sandbox: Sandbox;
let calls = 0;

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('editor'));
});

beforeEach(async () => {
  await sh(
    sandbox,
    "rm -rf /workspace/* /tmp/.undo; mkdir -p pkg; printf 'def f(a, b):\\n    return a - b\\n' > pkg/m.py",
  );
});

const edit = async (args: Record<string, unknown>, callId?: string): Promise<string> => {
  calls += 1;
  const call = { name: 'str_replace_editor', arguments: args };
  return (
    await runToolCall(call, ['str_replace_editor'], sandbox, { callId: callId ?? `edit-${calls}`, timeoutMs: 5000 })
  ).content;
};

const content = async (path: string): Promise<string> => (await sh(sandbox, `cat ${path}`)).output;

describe('view', () => {
  it('numbers lines, of the whole file or a range', async () => {
    expect(await edit({ command: 'view', path: 'pkg/m.py' })).toBe('1\tdef f(a, b):\n2\t    return a - b');
    expect(await edit({ command: 'view', path: '/workspace/pkg/m.py', view_range: [2, -1] })).toBe(
      '2\t    return a - b',
    );
    expect(await edit({ command: 'view', path: 'pkg/m.py', view_range: '[1, 1]' })).toBe('1\tdef f(a, b):');
    expect(await edit({ command: 'view', path: 'pkg/m.py', view_range: [1, 99] })).toContain('2\t');
  });

  it.each([[[0, 1]], [[3, 4]], [[2, 1]], [[1]], [[1, 2, 3]]])('refuses the range %j', async (range) => {
    const answer = await edit({ command: 'view', path: 'pkg/m.py', view_range: range });
    expect(answer).toBe(`Error: view_range ${JSON.stringify(range)}: must be [first, last] within lines 1 to 2.`);
  });

  it('lists a directory two levels deep, without hidden entries', async () => {
    await sh(sandbox, 'mkdir -p pkg/deep/deeper .git; touch pkg/deep/x.py top.py pkg/.hidden');
    expect(await edit({ command: 'view', path: '.' })).toBe('pkg/\npkg/deep/\npkg/m.py\ntop.py');
    await sh(sandbox, 'mkdir void');
    expect(await edit({ command: 'view', path: 'void' })).toBe('void is empty.');
  });

  it('lists no contents of folders in a directory with hundreds of them', async () => {
    await sh(sandbox, 'mkdir many; cd many; mkdir {100..400}; touch 100/inside zz; cd ..');
    const many = (await edit({ command: 'view', path: 'many' })).split('\n');
    expect(many).toHaveLength(302);
    expect(many.slice(-2)).toEqual(['400/', 'zz']);
  });

  it('reports what cannot be shown, and shows both ends of a long file', async () => {
    expect(await edit({ command: 'view', path: 'no.py' })).toBe('Error: no.py does not exist.');
    await sh(sandbox, "printf 'a\\0b' > bin; ln -s /etc/passwd link; seq 5000 > long");
    expect(await edit({ command: 'view', path: 'bin' })).toBe('Error: bin is a binary file.');
    expect(await edit({ command: 'view', path: 'link' })).toBe('Error: link cannot be opened: is a symbolic link.');
    const long = await edit({ command: 'view', path: 'long' });
    expect(long.length).toBeLessThan(8100);
    expect(long).toMatch(/^1\t1\n[^]*\n\[\d+ characters left out\]\n[^]*5000\t5000$/u);
  });
});

describe('str_replace', () => {
  it('replaces one exact occurrence, with its indentation', async () => {
    const args = { command: 'str_replace', path: 'pkg/m.py', old_str: '    return a - b', new_str: '    return a + b' };
    expect(await edit(args)).toBe('Edited pkg/m.py.');
    expect(await content('pkg/m.py')).toBe('def f(a, b):\n    return a + b\n');
  });

  it('keeps dollars, tabs, carriage returns and other bytes unchanged', async () => {
    await sh(sandbox, "printf 'x:\\r\\n\\ta $& \\377\\r\\n' > odd");
    expect(await edit({ command: 'str_replace', path: 'odd', old_str: '\ta $&', new_str: "\t$1 $$ $'" })).toBe(
      'Edited odd.',
    );
    expect((await sh(sandbox, 'od -An -c odd')).output.replaceAll(/\s+/gu, ' ')).toBe(
      " x : \\r \\n \\t $ 1 $ $ $ ' 377 \\r \\n ",
    );
  });

  it('deletes without new_str', async () => {
    await edit({ command: 'str_replace', path: 'pkg/m.py', old_str: '    return a - b\n' });
    expect(await content('pkg/m.py')).toBe('def f(a, b):\n');
  });

  it.each([
    [
      'text that is not there',
      { old_str: 'return  a' },
      'Error: old_str is not in pkg/m.py; copy it exactly, with its indentation.',
    ],
    [
      'text that is there twice',
      { old_str: 'a' },
      'Error: old_str is in pkg/m.py 2 times (lines 1, 2); make it longer.',
    ],
    ['no text', { old_str: '' }, 'Error: old_str "": must not be empty; use insert to add text.'],
    ['no change', { old_str: 'a - b', new_str: 'a - b' }, 'Error: new_str "a - b": must differ from old_str.'],
    ['no old_str', {}, 'Error: str_replace_editor needs the parameter old_str.'],
    ['another path', { path: 'no.py', old_str: 'a' }, 'Error: no.py does not exist.'],
    ['a directory', { path: 'pkg', old_str: 'a' }, 'Error: pkg is a directory.'],
  ])('refuses %s, and changes nothing', async (_, args, answer) => {
    await sh(sandbox, "printf 'def f(a,\\n  return a\\n' > pkg/m.py");
    const text = 'def f(a,\n  return a - b\n';
    await sh(sandbox, `printf '${text.replaceAll('\n', '\\n')}' > pkg/m.py`);
    expect(await edit({ command: 'str_replace', path: 'pkg/m.py', ...args })).toBe(answer);
    expect(await content('pkg/m.py')).toBe(text);
  });

  it('that another worker repeats returns the same answer, and edits once', async () => {
    const args = { command: 'str_replace', path: 'pkg/m.py', old_str: 'a - b', new_str: 'a - b - b' };
    expect(await edit(args, 'twice')).toBe('Edited pkg/m.py.');
    expect(await edit(args, 'twice')).toBe('Edited pkg/m.py.');
    const later = await bench.provider.connect('editor');
    const call = { name: 'str_replace_editor', arguments: args };
    expect(await runToolCall(call, ['str_replace_editor'], later, { callId: 'twice', timeoutMs: 5000 })).toEqual({
      content: 'Edited pkg/m.py.',
    });
    expect(await content('pkg/m.py')).toBe('def f(a, b):\n    return a - b - b\n');
    later.close();
  });
});

describe('create and insert', () => {
  it('create new files with their folders, and never overwrite one', async () => {
    expect(await edit({ command: 'create', path: 'new/dir/a.txt', file_text: '  x\n' })).toBe('Created new/dir/a.txt.');
    expect(await content('new/dir/a.txt')).toBe('  x\n');
    expect(await edit({ command: 'create', path: 'pkg/m.py', file_text: '' })).toBe(
      'Error: pkg/m.py exists already; use str_replace to change it.',
    );
    expect(await edit({ command: 'create', path: '/usr/a', file_text: '' })).toBe(
      'Error: /usr/a was not written: is read-only.',
    );
    const once = { command: 'create', path: 'once', file_text: 'x' };
    expect([await edit(once, 'once'), await edit(once, 'once')]).toEqual(['Created once.', 'Created once.']);
  });

  it.each([
    [0, 'new\ndef f(a, b):\n    return a - b\n'],
    ['1', 'def f(a, b):\nnew\n    return a - b\n'],
    [2, 'def f(a, b):\n    return a - b\nnew\n'],
  ])('insert after line %j', async (line, text) => {
    expect(await edit({ command: 'insert', path: 'pkg/m.py', insert_line: line, new_str: 'new' })).toBe(
      'Edited pkg/m.py.',
    );
    expect(await content('pkg/m.py')).toBe(text);
  });

  it('insert refuses a line that does not exist', async () => {
    const args = { command: 'insert', path: 'pkg/m.py', new_str: 'x' };
    expect(await edit({ ...args, insert_line: 3 })).toBe('Error: insert_line 3: must be between 0 and 2.');
    expect(await edit(args)).toBe('Error: insert needs insert_line, the line to insert after (0: the start).');
  });
});

describe('undo_edit', () => {
  it('undoes edits one by one, once per call', async () => {
    const before = await content('pkg/m.py');
    await edit({ command: 'str_replace', path: 'pkg/m.py', old_str: 'a - b', new_str: '1' });
    const between = await content('pkg/m.py');
    await edit({ command: 'insert', path: 'pkg/m.py', insert_line: 0, new_str: '#' });
    const undo = { command: 'undo_edit', path: 'pkg/m.py' };
    expect([await edit(undo, 'undo'), await edit(undo, 'undo')]).toEqual(
      Array(2).fill('Undid the last edit of pkg/m.py.'),
    );
    expect(await content('pkg/m.py')).toBe(between);
    await edit(undo);
    expect(await content('pkg/m.py')).toBe(before);
    expect(await edit(undo)).toBe('Error: there is no edit of pkg/m.py to undo.');
  });
});
