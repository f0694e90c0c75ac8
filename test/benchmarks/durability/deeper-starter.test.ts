/** Hunts a larger policy that samples other tokens than the starter, so that the bench would run another job. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { STARTER, STARTER_LAYERS, starterOf } from '../../../benchmarks/durability/deeper-starter.ts';
import { describePolicy } from '../../../trainer/model/describe-policy.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { randomIds } from '../../trainer/sampler/random-policy.ts';

it('is larger by its layers, and says the same with the same probabilities', async () => {
  const scratch = mkdtempSync(join(tmpdir(), 'longhaul-deeper-'));
  const sampler = new Sampler({ maxContext: 256, load: ({ dir }) => loadPolicy(dir) });
  try {
    const dirs = [await starterOf(STARTER_LAYERS, scratch), await starterOf(STARTER_LAYERS + 5, scratch)];
    expect(dirs[0]).toBe(STARTER);
    const request = {
      cacheKey: 'it',
      tokens: randomIds(1, 60, 400),
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 30 },
      stopTokenIds: [],
      noiseKey: 'it',
    };
    const [own, deeper] = await Promise.all(
      dirs.map((dir) => sampler.generate({ ...request, policy: { dir, version: 0 } })),
    );
    expect(deeper).toEqual(own);
    expect(own?.tokens.length).toBe(30);
    const [few, more] = await Promise.all(dirs.map((dir) => describePolicy(dir)));
    expect((more?.parameters ?? 0) - (few?.parameters ?? 0)).toBe(5 * 196_928);
  } finally {
    await sampler.idle();
    sampler.dispose();
    rmSync(scratch, { recursive: true });
  }
});
