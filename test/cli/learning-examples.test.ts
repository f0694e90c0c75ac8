/**
 * The examples that learn: calculator, gsm-mini and text2sql-mini. Why: a user's first run of their own copies them, and a starter that
 * cannot be made again is no example. Asserted: each configuration is planned, its grader gives 1 to solutions and 0 to
 * nothing, and the records of its starter are always the same. Not asserted: learning,
 * which takes minutes.
 */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as calculator from '../../examples/calculator/demonstrations.ts';
import * as gsm from '../../examples/gsm-mini/demonstrations.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { chatSchema } from '../../recipes/sft/chat-records.ts';
import { chatSequences } from '../../recipes/sft/chat-sequences.ts';
import { readSettings } from '../../config/read-config.ts';
import { miniChat } from '../../recipes/text2sql-mini/write-chats.ts';
import { longhaul } from '../support/cli.ts';

const examples = fileURLToPath(new URL('../../examples', import.meta.url));
const chatOf = chatSchema({ messages: 'messages', prompt: 'prompt', answer: 'answer', loss: 'all' });

type Chat = (n: number) => readonly object[] | Promise<readonly object[]>;
const JOBS: ReadonlyArray<{ readonly name: string; readonly chats: readonly Chat[]; readonly digest: string }> = [
  {
    name: 'calculator',
    chats: [calculator.drill, calculator.clean, calculator.mixed],
    digest: '62db6c94ca841c43a266c5954582bed6f7493d778642131827b2fe0eb5f87280',
  },
  {
    name: 'gsm-mini',
    chats: [gsm.drill, gsm.clean, gsm.mixed],
    digest: 'eb4e6d889620e6130e6351c0ba6a267781ce8b56d519e999c4f62b324965a954',
  },
  {
    name: 'text2sql-mini',
    chats: [(n) => miniChat(n, 'clean'), (n) => miniChat(1_000_000 + n, 'mixed')],
    digest: '0a905f448cfeea50f7628b825517f8bfc61b1cfea5b599e0ccc76f07f3d53b6f',
  },
];

describe.each(JOBS)('$name', ({ name, chats, digest }) => {
  it('is planned by a dry run, as a run and as an eval of the starter and of a server', async () => {
    const planned = await longhaul(['train', join(examples, `${name}.yaml`), '--dry-run'], examples);
    expect(planned.code, planned.stderr).toBe(0);
    expect(planned.stdout).toContain(`${name} (4000 tasks): `);
    const evaluated = await longhaul(['eval', join(examples, `${name}-eval.yaml`), '--dry-run'], examples);
    expect(evaluated.code, evaluated.stderr).toBe(0);
    expect(evaluated.stdout).toMatch(/^400 rollouts; pass@1/mu);
  });

  it('scores a known solution 1, and nothing 0', async () => {
    const checked = await longhaul(['check', join(examples, `${name}.yaml`), '--oracle', '--tasks', '16'], examples);
    expect(checked.code, checked.stderr).toBe(0);
    expect(checked.stdout).toContain('oracle: 32 of 32 scored 1 · empty: 32 of 32 scored 0');
  });

  it('has records that are the same in every process, which the starter’s tokenizer encodes within its context', async () => {
    const hash = createHash('sha256');
    const starter = join(examples, `${name}-starter`);
    const tokenizer = await loadTokenizer(starter);
    const { maxPositions } = await readModelConfig(starter);
    for (const chat of chats) {
      for (let n = 0; n < 200; n += 1) {
        const messages = await chat(n);
        hash.update(JSON.stringify(messages));
        const sequences = chatSequences(tokenizer, chatOf.parse({ messages }));
        expect(sequences).toHaveLength(1);
        expect(sequences[0]?.tokens.length).toBeLessThan(maxPositions);
      }
    }
    expect(hash.digest('hex')).toBe(digest);
  });

  it('has a starter of at most 3 MB that is Longhaul’s own, made by the recipe beside it', async () => {
    const starter = join(examples, `${name}-starter`);
    const { size } = await stat(join(starter, 'model.safetensors'));
    expect(size).toBeLessThan(3_000_000);
    const { layers, hiddenSize } = await readModelConfig(starter);
    const recipe = await readSettings(join(examples, name, 'starter.yaml'));
    expect(recipe).toMatchObject({ model: { layers, hidden: hiddenSize } });
  });
});
