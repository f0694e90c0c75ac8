/** Hunts blocks and answers that are read otherwise than SkyRL-Gym's patterns read them. */
import { describe, expect, it } from 'vitest';
import { finalIn, replBlock } from '../../../tasks/rlm/read-message.ts';

describe('the block of a message', () => {
  it.each([
    ['a', '```repl\na = 1\n```', 'a = 1'],
    ['the last one', '```repl\na = 1\n```\ntext\n```repl\n  b = 2\n\n```', 'b = 2'],
    ['after white space', '```repl  \n\n  c = 1\n```', 'c = 1'],
    ['an empty one', '```repl\n\n```', ''],
    ['one with fences inside of its lines', '```repl\na = "```"\n```', 'a = "```"'],
    ['one that is closed by a later fence', '```repl\nq = 1```\n```repl\nr = 2\n```', 'q = 1```'],
    ['none of another language', '```python\na = 1\n```', undefined],
    ['none without an end', '```repl\na = 1', undefined],
    ['none on the line of the fence', '```repl a = 1\n```', undefined],
    ['none without a line for the end', '```repl\n```', undefined],
  ])('%s', (_, message, code) => {
    expect(replBlock(message)).toBe(code);
  });
});

describe('the answer of a message', () => {
  it.each([
    ['a text', 'FINAL(42)', { text: '42' }],
    ['after white space at the start of its line', 'so\n \t FINAL( 42 )  \nend', { text: '42' }],
    ['lines, up to the last bracket that ends one', 'FINAL(a\n(b) \nc)\n d)\nend)x', { text: 'a\n(b) \nc)\n d' }],
    ['an empty one', 'FINAL()', { text: '' }],
    ['none inside of a line', 'the answer is FINAL(42)', {}],
    ['none without its end', 'FINAL(42', {}],
    ['none before which its bracket is', 'a)\nFINAL(42', {}],
    ['a variable', 'FINAL_VAR(x)', { variable: 'x' }],
    ['in quotes', `FINAL_VAR( "'x'" )`, { variable: 'x' }],
    ['the last variable', 'FINAL_VAR(x)\nFINAL_VAR(y) z', { variable: 'y' }],
    ['the first of a line', 'FINAL_VAR(x) FINAL_VAR(y)', { variable: 'x' }],
    ['before a text', 'FINAL(1)\nFINAL_VAR(y)', { variable: 'y' }],
    ['up to its first bracket', 'FINAL_VAR(\nFINAL_VAR(x)\n', { variable: 'FINAL_VAR(x' }],
    ['nothing', 'I think.', {}],
  ])('%s', (_, message, said) => {
    expect(finalIn(message)).toEqual(said);
  });

  it('takes time that grows with the message alone', () => {
    const many = 100_000;
    for (const text of ['```repl\n'.repeat(many), 'FINAL_VAR('.repeat(many), `FINAL(${')('.repeat(many)}`]) {
      replBlock(text);
      finalIn(text);
    }
    expect(replBlock(`\`\`\`repl${'\n'.repeat(many)}`)).toBeUndefined();
  });
});
