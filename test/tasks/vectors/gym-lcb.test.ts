/** The cases of SkyRL-Gym's `lcb`, each graded in real sandboxes. */

import { describe, expect, it } from 'vitest';
import { gradeLcb, tests } from '../../../tasks/code/lcb.ts';
import { lastBlock } from '../../../tasks/code/extract-code.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly tag: string;
  readonly extras: { readonly reward_spec?: { readonly ground_truth?: string } };
  readonly actions?: readonly [string];
  readonly steps: ReadonlyArray<{
    readonly reward: number;
    readonly done: boolean;
    readonly metadata: { readonly parsed_code: string | null };
  }>;
  /** Of the constructor. */
  readonly expected_error?: unknown;
  /** The original misbehaves: its verdict need not be met. */
  readonly upstream_bug?: unknown;
  readonly upstream_crash?: unknown;
}

const { lcb: cases = [] } = readVectors<{ readonly lcb?: readonly Case[] }>('gym.json');
const bounds = { seconds: 6, memoryMiB: 512 };
const { provider } = await openBench();

/** A record that no answer can solve is refused when it is loaded. The original refuses it too, or gives 0. */
const refused: Verdict = { code: 'graded', reward: 0, passed: false, reason: 'the record is refused' };

/** Graded a few at a time: a machine has few processors. */
async function gradedAll(): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < cases.length) {
      const i = next++;
      const { actions, extras } = cases[i]!;
      const problem = tests.safeParse(extras.reward_spec?.ground_truth);
      verdicts[i] = problem.success
        ? await gradeLcb(actions?.[0] ?? '', problem.data, bounds, { provider, id: `lcb-${i}` })
        : refused;
    }
  };
  await Promise.all([work(), work(), work()]);
  return verdicts;
}

describe('lcb', () => {
  const all = gradedAll();

  it.each(cases.map((one, i) => [one.tag, i] as const))('%s (%i)', { timeout: 300_000 }, async (_tag, i) => {
    const { steps, actions, expected_error: error, upstream_bug: bug, upstream_crash: crash } = cases[i]!;
    const verdict = (await all)[i];
    if (error !== undefined) return expect(verdict).toBe(refused);
    if (bug !== undefined || crash !== undefined) return expect(verdict).toMatchObject({ code: 'graded' });
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ done: true });
    expect(lastBlock(actions?.[0] ?? '') ?? null).toBe(steps[0]!.metadata.parsed_code);
    expect(verdict).toMatchObject({ code: 'graded', reward: steps[0]!.reward });
  });

  if (cases.length === 0) it('has no cases here', () => expect(cases).toEqual([]));
});
