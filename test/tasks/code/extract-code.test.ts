/** Which part of an answer is its code. */

import { describe, expect, it } from 'vitest';
import { lastBlock, programOf, programsOf } from '../../../tasks/code/extract-code.ts';

const fenced = (code: string, language = 'python'): string => `\`\`\`${language}\n${code}\n\`\`\``;

describe('lastBlock', () => {
  it.each([
    [`a ${fenced('x')} b ${fenced('y\n')}`, 'y'],
    [fenced('x', ''), 'x'],
    ['```python x\n```', undefined],
    ['```python\r\nx\n```', undefined],
    ['```python\nx', undefined],
    ['x = 1', undefined],
    ['```c++\nx```\ny```', 'y'],
    ['``````\n```', ''],
  ])('%j', (text, code) => expect(lastBlock(text)).toBe(code));

  it('takes time that is linear in the answer', () => {
    expect(lastBlock('```\n'.repeat(200_001))).toBe('');
    expect(lastBlock(`\`\`\`${'a'.repeat(2_000_000)}`)).toBeUndefined();
  });
});

describe('programsOf', () => {
  const prompt = 'import math\n\n\ndef f(x):\n    """Doubles."""\n';

  it('takes a plain continuation as it is, and cuts what follows the function', () => {
    expect(programsOf('    return 2 * x\n', prompt, 'f')[0]).toBe(`${prompt}    return 2 * x\n`);
    const [, cut] = programsOf('    return 2 * x\n\nprint(f(1)', prompt, 'f');
    expect(cut).toBe(`${prompt}    return 2 * x\n`);
  });

  it('finds the whole function in a fence, or in the text, and keeps what the prompt imports', () => {
    const whole = 'def f(x):\n    return 2 * x\n';
    expect(programsOf(`Here: ${fenced(whole)} and ${fenced('f(1)')}`, prompt, 'f')[0]).toBe(
      `${prompt}\n    pass\n\n${whole}\n`,
    );
    expect(programsOf(whole, prompt, 'f').at(-1)).toBe(whole);
  });

  it('takes a body in a fence, with or without its indentation', () => {
    const programs = programsOf(fenced('return 2 * x'), prompt, 'f');
    expect(programs).toContain(`${prompt}    return 2 * x\n    `);
    expect(programsOf(fenced('    return 2 * x'), prompt, 'f')[0]).toBe(`${prompt}    return 2 * x\n`);
  });
});

describe('programOf', () => {
  it.each([
    [`so: ${fenced('def f(): pass')}`, 'def f(): pass\n'],
    ['def f():\r\n    pass', 'def f():\n    pass'],
    ['[BEGIN]\nx = 1\n[DONE]\nmore', '\nx = 1\n'],
    ['x = 1\n[DONE]\nmore', 'x = 1\n'],
  ])('%j', (answer, code) => expect(programOf(answer)).toBe(code));
});
