/** The other tools in a real sandbox, the registry, and the answers to a policy's mistakes. */

import { beforeAll, describe, expect, it } from 'vitest';

import { bashObservation } from '../../../agents/tools/shell/bash.ts';
import { normalizeOutput, truncateMiddle } from '../../../agents/tools/observation.ts';
import { toolRegistry } from '../../../agents/tools/registry.ts';
import { onlyReads, runToolCall } from '../../../agents/tools/run-tool-call.ts';
import { makeTool } from '../../../agents/tools/tool.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from '../../sandboxes/harness.ts';

const bench = await openBench();
const all = [...toolRegistry.keys()];
let sandbox: Sandbox;
let calls = 0;

beforeAll(async () => {
  const files = [
    { path: 'b.py', content: 'def total(x):\n    return x\n' },
    { path: 'a.py', content: 'import b\n\n\nvalue = b.total(1)  # total: (a*)\n' },
    { path: 'pkg/c d.txt', content: 'total:1:x\n' },
    { path: '.git/x', content: 'total\n' },
    { path: 'bin', content: 'total\0\n' },
  ];
  sandbox = await bench.provider.create(specOf('tools', { files }));
});

const use = async (name: string, args: Record<string, unknown>, timeoutMs = 5000): Promise<string> => {
  calls += 1;
  return (await runToolCall({ name, arguments: args }, all, sandbox, { callId: `tool-${calls}`, timeoutMs })).content;
};

describe('bash', () => {
  it.each([
    ['echo a; echo b', 'a\nb'],
    ['true', '[no output]'],
    ['false', '[exit code 1]'],
    ['echo a; (exit 3)', 'a\n[exit code 3]'],
    ['nosuchthing', 'bash: nosuchthing: command not found\n[exit code 127]'],
    ['exit 3', '[shell restarted]\n[exit code 3]'],
    ['kill -9 $$', '[shell restarted]\n[killed by SIGKILL]'],
    ["printf '\\033[31mred\\033[0m 10%%\\r100%%\\n'", '100%'],
  ])('%s', async (command, observation) => {
    expect(await use('bash', { command })).toBe(observation);
    // Equal text each time, whatever ran before.
    expect(await use('bash', { command })).toBe(observation);
  });

  it('reports a timeout, by its own limit or the caller’s', async () => {
    expect(await use('bash', { command: 'echo a; sleep 60' }, 300)).toBe(
      'a\n[timed out after 0.3 s; everything was stopped]',
    );
    expect(await use('bash', { command: 'sleep 60', timeout: '1' })).toBe(
      '[timed out after 1 s; everything was stopped]',
    );
    expect(await use('bash', { command: 'true', timeout: 0 })).toBe('Error: timeout 0: must be at least 1.');
  });

  it('reports that memory was the reason', () => {
    const result = {
      exitCode: 137,
      signal: null,
      output: 'x\n',
      droppedBytes: 0,
      timedOut: false,
      outOfMemory: true,
      durationMs: 1,
    };
    expect(bashObservation(result, 1000, 100)).toBe('x\n[out of memory: a process was killed]\n[exit code 137]');
  });

  it('leaves out the middle of a long output', async () => {
    const observation = await use('bash', { command: 'seq 100000' });
    expect(observation.length).toBeLessThan(8100);
    expect(observation).toMatch(/^1\n2\n[^]*\[\d+ characters left out\][^]*\n100000$/u);
  });
});

describe('search', () => {
  it('prints path, line and text, sorted by path, and skips binary files and folders without sources', async () => {
    expect(await use('search', { query: 'total' })).toBe(
      'a.py:4:value = b.total(1)  # total: (a*)\nb.py:1:def total(x):\npkg/c d.txt:1:total:1:x',
    );
    expect(await use('search', { query: 'def total' })).toBe('b.py:1:def total(x):');
  });

  it('treats the query as text unless `regex` is set', async () => {
    expect(await use('search', { query: '(a*)' })).toBe('a.py:4:value = b.total(1)  # total: (a*)');
    expect(await use('search', { query: 'def [a-z]+', regex: 'true' })).toBe('b.py:1:def total(x):');
    expect(await use('search', { query: '-e $(touch pwned) `x` \'"' })).toBe(
      'No matches for "-e $(touch pwned) `x` \'\\"".',
    );
    expect((await sandbox.read('pwned', 1)).kind).toBe('missing');
    expect(await use('search', { query: '(', regex: true })).toMatch(/^Error: Unmatched/u);
  });

  it('narrows by path and by name', async () => {
    expect(await use('search', { query: 'total', path: 'pkg' })).toBe('pkg/c d.txt:1:total:1:x');
    expect(await use('search', { query: 'total', path: './b.py' })).toBe('b.py:1:def total(x):');
    expect(await use('search', { query: 'total', include: '*.txt' })).toBe('pkg/c d.txt:1:total:1:x');
    expect(await use('search', { query: 'x', path: 'nope' })).toBe('Error: nope: No such file or directory');
  });

  it('shows at most fifty, and reports that there are more', async () => {
    await sh(sandbox, 'for i in $(seq 60); do echo "needle $i"; done > many; rm -f bin');
    const lines = (await use('search', { query: 'needle' })).split('\n');
    expect(lines).toHaveLength(51);
    expect(lines.at(-1)).toBe('[10 more matches; narrow the search]');
    expect(lines[1]).toBe('many:2:needle 2');
  });

  it('neither sees nor changes the shell', async () => {
    await sh(sandbox, 'cd /tmp; grep() { echo poisoned; }; (exit 5)');
    expect(await use('search', { query: 'def total' })).toBe('b.py:1:def total(x):');
    expect((await sh(sandbox, 'pwd; unset -f grep; cd /workspace')).output).toBe('/tmp\n');
  });

  it('refuses an invalid search', async () => {
    expect(await use('search', { query: '' })).toBe('Error: query "": must not be empty.');
    expect(await use('search', { query: 'a\nb' })).toBe('Error: query "a\\nb": must be a single line.');
  });
});

describe('the registry', () => {
  it('has schemas that name every required parameter', () => {
    expect(all).toEqual(
      expect.arrayContaining(['bash', 'str_replace_editor', 'search', 'finish', 'delegate', 'next_with_summary']),
    );
    for (const [name, { schema }] of toolRegistry) {
      expect(schema).toMatchObject({ type: 'function', function: { name, parameters: { type: 'object' } } });
      const { properties, required } = schema.function.parameters as { properties: object; required: string[] };
      expect(required.every((each) => each in properties)).toBe(true);
    }
  });

  it('reports errors with the parameter, the value and the remedy', async () => {
    const bash = toolRegistry.get('bash');
    expect(bash?.validate({ command: 'true' })).toBeUndefined();
    expect(bash?.validate({})).toBe('bash needs the parameter command.');
    expect(bash?.validate({ command: 5 })).toBe('command 5: must be a text.');
    expect(bash?.validate({ cmd: 'ls' })).toBe('cmd "ls": bash has no such parameter; it has command, timeout.');
    expect(bash?.validate({ command: 'ls', timeout: 'soon' })).toBe('timeout "soon": must be a whole number.');
    const editor = toolRegistry.get('str_replace_editor');
    expect(editor?.validate({ command: 'delete', path: 'a' })).toBe(
      'command "delete": must be one of view, create, str_replace, insert, undo_edit.',
    );
    expect(await use('bash', { command: ['ls'] })).toBe('Error: command ["ls"]: must be a text.');
    expect(await use('rm', {})).toBe(`Error: there is no tool "rm"; use ${all.join(', ')}.`);
    expect(
      await runToolCall({ name: 'bash', arguments: {} }, ['finish'], sandbox, { callId: 'x', timeoutMs: 1 }),
    ).toEqual({ content: 'Error: there is no tool "bash"; use finish.', refused: true });
    expect(await use('finish', { answer: 'done' })).toBe('Finished.');
  });

  it('distinguishes calls that were refused from calls that ran and failed', async () => {
    const refused = async (name: string, args: Record<string, unknown>) =>
      (
        await runToolCall({ name, arguments: args }, all, sandbox, {
          callId: `refused-${(calls += 1)}`,
          timeoutMs: 5000,
        })
      ).refused ?? false;
    expect(await refused('bash', { command: 'exit 3' })).toBe(false);
    expect(await refused('bash', { command: 'sleep 9', timeout: 1 })).toBe(false);
    expect(await refused('search', { query: 'nowhere to be found' })).toBe(false);
    expect(await refused('search', { query: '(', regex: true })).toBe(true);
    expect(await refused('str_replace_editor', { command: 'view', path: 'b.py' })).toBe(false);
    expect(await refused('str_replace_editor', { command: 'view', path: 'missing.py' })).toBe(true);
    expect(await refused('str_replace_editor', { command: 'create', path: '/proc/no/file', file_text: '' })).toBe(true);
  });

  it('distinguishes calls that only read from calls that may change something', () => {
    const all = ['bash', 'str_replace_editor', 'search'];
    const reads = (name: string, args: Record<string, unknown>) => onlyReads({ name, arguments: args }, all);
    expect(reads('search', { query: 'x' })).toBe(true);
    expect(reads('str_replace_editor', { command: 'view', path: 'a' })).toBe(true);
    expect(reads('rm', {})).toBe(true);
    for (const command of ['create', 'str_replace', 'insert', 'undo_edit', ['view'], undefined])
      expect(reads('str_replace_editor', { command, path: 'a' })).toBe(false);
    expect(reads('bash', { command: 'cat a' })).toBe(false);
  });

  it('accepts custom tools', async () => {
    const shout = makeTool({
      name: 'shout',
      description: 'Says it louder.',
      parameters: { text: { type: 'string', description: 'What to say.' } },
      required: ['text'],
      run: async (args) => await Promise.resolve(args.text('text').toUpperCase()),
    });
    const registry = new Map([['shout', shout]]);
    const call = { name: 'shout', arguments: { text: '  hi ' } };
    expect(await runToolCall(call, ['shout'], sandbox, { callId: 'y', timeoutMs: 1 }, registry)).toEqual({
      content: '  HI ',
    });
  });
});

describe('observations', () => {
  it('have no escapes, control characters or overwritten text', () => {
    expect(normalizeOutput('\u001b]0;title\u0007a\u001b[1;31mb\u001b(B\u001b[K\u0007\u0000c')).toBe('abc');
    expect(normalizeOutput('1%\r2%\r\nnext\r\n')).toBe('2%\nnext\n');
    expect(normalizeOutput('tab\tline\n')).toBe('tab\tline\n');
  });

  it('are cut in the middle, never within a character', () => {
    expect(truncateMiddle('short', 10)).toBe('short');
    expect(truncateMiddle('abcdefghij', 4)).toBe('ab\n[6 characters left out]\nij');
    expect(truncateMiddle('\u{1F600}'.repeat(50), 25)).not.toMatch(
      /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/u,
    );
  });
});
