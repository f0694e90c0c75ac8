/** What the sampler reads of a policy's directory: hunts ids without a token, and a limit that is not a number. */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { modelConfigJson } from '../../../trainer/model/config.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { inScratch, smallConfig } from '../tiny-policy.ts';

const added = (id: number) => [{ id, content: '<s>' }];

test.each([
  ['by its entries', { model: { type: 'BPE', vocab: { a: 0, b: 7, c: 3 } } }, 8],
  // As in models of Llama's shape with a SentencePiece vocabulary.
  [
    'by the places in its list',
    {
      model: {
        type: 'Unigram',
        vocab: [
          ['<unk>', 0],
          ['▁a', -1.5],
          ['b', -2],
        ],
      },
    },
    3,
  ],
  ['with added tokens', { model: { type: 'Unigram', vocab: [['<unk>', 0]] }, added_tokens: added(9) }, 10],
  ['no longer than the model has ids', { model: { vocab: { a: 0 } }, added_tokens: added(700) }, 512],
  ['all of the model where there is none', {}, 512],
])('a vocabulary is known %s', (_, json, vocabulary) =>
  inScratch(async (dir) => {
    await writeFile(path.join(dir, 'config.json'), JSON.stringify(modelConfigJson(smallConfig)));
    await writeFile(path.join(dir, 'tokenizer.json'), JSON.stringify(json));
    expect((await loadPolicy(dir)).vocabulary).toBe(vocabulary);
  }),
);
