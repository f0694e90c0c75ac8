/** Hunts settings of supervised training that have no effect and are not refused. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readSftConfig } from '../../../recipes/sft/sft-config.ts';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-sft-config-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

function read(settings: object) {
  const file = join(dir, 'sft.json');
  writeFileSync(
    file,
    JSON.stringify({
      out: 'out',
      initial: dir,
      data: { clean: { generate: 'starter/clean' } },
      stages: [{ data: 'clean', steps: 1, batchSize: 1, learningRate: 1 }],
      ...settings,
    }),
  );
  return readSftConfig(file);
}

it('lora must match an initial policy that is an adapter', async () => {
  await read({ lora: {} });
  writeFileSync(join(dir, 'adapter_config.json'), JSON.stringify({ r: 4, lora_alpha: 8, target_modules: ['q_proj'] }));
  const own = { rank: 4, alpha: 8, targetModules: ['q_proj'] };
  await expect(read({ lora: { ...own, rank: 8 } })).rejects.toMatchObject({
    name: 'UserInputError',
    field: 'lora',
    value: { rank: 8 },
    remedy: expect.stringMatching(/^give {"rank":4,.*leave it out/) as string,
  });
  expect(await read({ lora: own })).toMatchObject({ initial: dir, out: join(dir, 'out'), lora: own });
  expect(await read({})).not.toHaveProperty('lora');
});

it.each([
  [{ stagez: [], stages: undefined }, 'stagez', 'did you mean stages?'],
  [{ packin: true }, 'packin', 'did you mean packing?'],
  [
    { stages: [{ data: 'clean', stps: 1, batchSize: 1, learningRate: 1 }] },
    'stages.0.stps',
    'did you mean stages.0.steps?',
  ],
  [{ lora: { rnk: 4 } }, 'lora.rnk', 'did you mean lora.rank?'],
  [{ batchSize: 4 }, 'batchSize', 'did you mean stages.0.batchSize?'],
])('an unknown setting is refused with the one that was meant: %j', async (settings, field, meant) => {
  await expect(read(settings)).rejects.toMatchObject({
    name: 'UserInputError',
    field,
    remedy: expect.stringContaining(meant) as string,
  });
});

it('a compact tokenizer is learned: it has no folder and no recipe', async () => {
  const model = { layers: 1, hidden: 16, heads: 1, kvHeads: 1, headDim: 16, intermediate: 16 };
  const withTokenizer = (tokenizer: object) => read({ initial: undefined, model, tokenizer });
  expect(await withTokenizer({ compact: { digits: 3 } })).toMatchObject({
    tokenizer: { compact: { digits: 3, tokens: [] } },
  });
  for (const beside of [{ from: '.' }, { generate: 'starter' }])
    await expect(withTokenizer({ compact: {}, ...beside })).rejects.toMatchObject({ field: 'tokenizer.compact' });
  await expect(withTokenizer({ compact: { digits: 4 } })).rejects.toMatchObject({ field: 'tokenizer.compact.digits' });
});
