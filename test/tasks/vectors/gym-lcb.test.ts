/** The cases of SkyRL-Gym's `lcb`, each graded in real sandboxes. */

import { describe, expect, it } from 'vitest';
import { gradeLcb, tests } from '../../../tasks/code/lcb.ts';
import { lastBlock } from '../../../tasks/code/extract-code.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly tag: string;
  readonly extras: { readonly reward_spec: { readonly ground_truth: string } };
  readonly actions: readonly [string];
  readonly steps: ReadonlyArray<{
    readonly reward: number;
    readonly done: boolean;
    readonly metadata: { readonly parsed_code: string | null };
  }>;
  readonly upstream_bug?: unknown;
}

const { lcb: cases = [] } = readVectors<{ readonly lcb?: readonly Case[] }>('gym.json');
const bounds = { seconds: 6, memoryMiB: 512 };
const { provider } = await openBench();

/** Graded a few at a time: a machine has few processors. */
async function gradedAll(): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < cases.length) {
      const i = next++;
      const { actions, extras } = cases[i]!;
      const problem = tests.parse(extras.reward_spec.ground_truth);
      verdicts[i] = await gradeLcb(actions[0], problem, bounds, { provider, id: `lcb-${i}` });
    }
  };
  await Promise.all([work(), work(), work()]);
  return verdicts;
}

describe('lcb', () => {
  const all = gradedAll();

  it.each(cases.map((one, i) => [one.tag, i] as const))('%s (%i)', { timeout: 300_000 }, async (_tag, i) => {
    const { steps, actions } = cases[i]!;
    const verdict = (await all)[i];
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ done: true });
    expect(lastBlock(actions[0]) ?? null).toBe(steps[0]!.metadata.parsed_code);
    expect(verdict).toMatchObject({ code: 'graded', reward: steps[0]!.reward });
  });

  it.skipIf(cases.length > 0)('has no cases here', () => expect(cases).toEqual([]));
});
