/** Hunts code that the tool changes, lets run on, or answers with too much. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { codeInterpreter, withoutFence } from '../../../../agents/tools/shell/code-interpreter.ts';
import type { Sandbox } from '../../../../sandboxes/sandbox.ts';
import { openBench, specOf } from '../../../sandboxes/harness.ts';

const { provider } = await openBench();
let sandbox: Sandbox;
let calls = 0;

beforeAll(async () => {
  sandbox = await provider.create(specOf('code-interpreter'));
});
afterAll(() => sandbox.close());

async function answer(code: string, given: Record<string, unknown> = {}, options?: unknown): Promise<string> {
  calls += 1;
  const call = { name: 'code_interpreter', arguments: { code, ...given } };
  const tool = codeInterpreter.withOptions(options, 'tools.code_interpreter.options');
  const { content } = await tool.run(call, sandbox, { callId: `c${calls}`, timeoutMs: 60_000 });
  return content;
}

describe('code_interpreter', () => {
  it('prints what the code prints, and the value of its last expression', async () => {
    expect(await answer('print(1)\nx = 2\nx * 21')).toBe('1\n42');
    expect(await answer('"text"')).toBe('text');
    expect(await answer('x = 1')).toBe('[no output]');
    expect(await answer('print("once")')).toBe('once');
    expect(await answer('for i in range(2):\n    i')).toBe('[no output]');
  });

  it('strips the fence, and no other characters', async () => {
    expect(await answer("```python\nprint('a`b$HOME\\\\')\n```")).toBe('a`b$HOME\\');
    expect(withoutFence('```\nx\n\ny\n```\n')).toBe('x\n\ny');
    expect(withoutFence('x = "```"')).toBe('x = "```"');
    expect(withoutFence('```py\nx = 1')).toBe('x = 1');
  });

  it('shows where the code failed', async () => {
    const shown = await answer('def f():\n    return 1 / 0\nf()');
    expect(shown).toContain('code.py", line 2, in f');
    expect(shown).toContain('ZeroDivisionError: division by zero\n[exit code 1]');
    expect(shown).not.toContain('<string>');
    expect(await answer('x = (')).toContain('SyntaxError');
    expect(await answer('import sys; sys.exit(3)')).toBe('[exit code 3]');
  });

  it('keeps files, and nothing else, from call to call', async () => {
    await answer('open("kept.txt", "w").write("here")\ny = 1');
    expect(await answer('open("kept.txt").read()')).toBe('here');
    expect(await answer('y')).toContain('NameError');
    expect(await answer('input()')).toContain('EOFError');
  });

  it('runs bash, and refuses other languages', async () => {
    expect(await answer('echo "a $((1 + 1))"; cat', { language: 'bash' })).toBe('a 2');
    expect(await answer('1', { language: 'cobol' })).toMatch(/^Error: .*python, bash/u);
  });

  it('bounds time, memory, the code and the answer', { timeout: 120_000 }, async () => {
    expect(await answer('while True: pass', {}, { seconds: 1 })).toContain('timed out after 1 s');
    expect(await answer('x = "a" * (600 << 20)', {}, { memoryMiB: 128 })).toContain('MemoryError');
    expect((await answer('print("a" * 10**6)')).length).toBeLessThan(9000);
    expect(await answer('#'.repeat(300_000))).toMatch(/^Error: .*at most/u);
  });
});
