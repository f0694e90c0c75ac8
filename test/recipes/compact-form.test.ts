/** The tokenizer of small policies. Why: a number that has other tokens in the answer than in the question cannot be copied. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { compactForm } from '../../recipes/tokenizer/compact-form.ts';
import { makeTokenizerFiles } from '../../recipes/tokenizer/tokenizer-files.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';

const CALL = '<function=calculator>\n<parameter=expression>';

async function tokenizer(digits: number) {
  const dir = await mkdtemp(join(tmpdir(), 'compact-'));
  const texts = ['Add 12345 and 678.', 'Add 9 and 12345.'];
  const files = makeTokenizerFiles(compactForm({ tokens: [CALL], digits }), texts, 1536, 512);
  for (const name of ['tokenizer.json', 'tokenizer_config.json'] as const)
    await writeFile(join(dir, name), files[name]);
  return loadTokenizer(dir);
}

it.each([
  [1, 5],
  [2, 3],
  [3, 2],
])('groups of %i digits: 90817 has at most %i tokens, the same ones wherever it stands', async (digits, most) => {
  const learned = await tokenizer(digits);
  const alone = learned.encode('90817');
  // The last group is shorter, and may have a token for each digit.
  expect(alone.length).toBeLessThanOrEqual(most + digits - 1);
  for (const text of ['Add 90817 and 1.', '(90817 + 2)', '90817\n', `${CALL}90817`]) {
    const ids = learned.encode(text);
    expect(ids.join(' '), text).toContain(alone.join(' '));
    expect(learned.decode(ids), text).toBe(text);
  }
});

it('a text of `tokens` is one token', async () => {
  const learned = await tokenizer(3);
  expect(learned.encode(CALL)).toHaveLength(1);
});
