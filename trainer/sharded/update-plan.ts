/**
 * The plan of an update over several workers, written once: the content of each shard of each optimizer step, with all
 * numbers that need all data. Every worker that reads the plan computes the same shard.
 */

import { paddedLength } from '../model/token-batch.ts';
import type { PassSequence } from '../passes.ts';
import { planCritic, settingsWithCritic } from '../critic/train-critic.ts';
import type { ValuedSequence } from '../critic/valued-sequences.ts';
import type { UpdateRequest } from '../update-request.ts';
import type { PreparedUpdate } from '../training/prepare-update.ts';

type PlannedSequence = Omit<PassSequence, 'advantages'>;

interface PlannedPass {
  /** Number of the pass, counted over the whole update. */
  readonly pass: number;
  /** Indices of the plan's sequences, with their advantages in this pass. */
  readonly items: ReadonlyArray<readonly [sequence: number, advantages: Float64Array]>;
}

/** One optimizer step. */
export interface PlannedRound {
  readonly epoch: number;
  readonly minibatch: { readonly tokens: number; readonly sequences: number };
  readonly shards: ReadonlyArray<readonly PlannedPass[]>;
}

/** One optimizer step of the critic. */
export interface PlannedCriticRound {
  /** Number of sequences in all shards. */
  readonly sequences: number;
  /** The passes of each shard, as indices of the critic's sequences. */
  readonly shards: ReadonlyArray<ReadonlyArray<readonly number[]>>;
}

/** The critic's steps, which come before the policy's. */
export interface PlannedCritic {
  readonly sequences: readonly ValuedSequence[];
  readonly rounds: readonly PlannedCriticRound[];
}

export interface UpdatePlan {
  readonly request: Omit<UpdateRequest, 'data'>;
  readonly critic?: PlannedCritic;
  /** Each sequence is stored once, though every epoch uses it. */
  readonly sequences: readonly PlannedSequence[];
  /** The policy's rounds. */
  readonly rounds: readonly PlannedRound[];
  readonly tokens: number;
  readonly metrics: PreparedUpdate['metrics'];
}

function criticOf(
  { algorithm, toVersion }: UpdateRequest,
  valued: readonly ValuedSequence[],
  shards: number,
): PlannedCritic | undefined {
  const settings = settingsWithCritic(algorithm);
  if (settings === undefined) return undefined;
  const numbered = valued.map((sequence, index) => ({ ...sequence, index }));
  const rounds = planCritic(numbered, settings, `update ${toVersion}`, shards).map(
    ({ micro, sequences }): PlannedCriticRound => {
      const shares = assignShards(micro, shards, algorithm.packing);
      return {
        sequences,
        shards: shares.map((share) => share.flatMap((i) => [(micro[i] ?? []).map(({ index }) => index)])),
      };
    },
  );
  return { sequences: valued, rounds };
}

export function planOf(
  update: UpdateRequest,
  { epochs, tokens, metrics, valued }: PreparedUpdate,
  shards: number,
): UpdatePlan {
  const { data: _, ...request } = update;
  const indices = new Map<PassSequence['sample'], number>();
  const sequences: PlannedSequence[] = [];
  const indexOf = ({ sample, advantages: _advantages, ...sequence }: PassSequence): number => {
    const known = indices.get(sample);
    if (known !== undefined) return known;
    const { count, recorded, old, reference } = sample;
    indices.set(sample, sequences.length);
    return sequences.push({ sample: { count, recorded, old, reference }, ...sequence }) - 1;
  };
  let pass = 0;
  const rounds = epochs.flatMap((minibatches, epoch) =>
    minibatches.map(({ micro, tokens: trained, sequences: count }): PlannedRound => {
      const passes = micro.map((one) => ({
        pass: pass++,
        items: one.map((item) => [indexOf(item), item.advantages] as const),
      }));
      const shares = assignShards(micro, shards, update.algorithm.packing);
      return {
        epoch,
        minibatch: { tokens: trained, sequences: count },
        shards: shares.map((share) => share.flatMap((i) => passes[i] ?? [])),
      };
    }),
  );
  const critic = criticOf(update, valued, shards);
  return { request, ...(critic && { critic }), sequences, rounds, tokens, metrics };
}

/** The sequences of a pass, as the backend expects them. */
export function sequencesOf({ sequences }: UpdatePlan, { items }: PlannedPass): PassSequence[] {
  return items.flatMap(([index, advantages]) => {
    const sequence = sequences[index];
    return sequence ? [{ ...sequence, advantages }] : [];
  });
}

type Sequences = ReadonlyArray<Pick<PassSequence, 'tokens'>>;

/** The cost of a pass: the number of tokens that it computes, including padding. */
function costOf(micro: Sequences, packing: boolean): number {
  const lengths = micro.map(({ tokens }) => tokens.length - 1);
  return packing
    ? lengths.reduce((sum, length) => sum + length, 0)
    : micro.length * paddedLength(Math.max(1, ...lengths));
}

/**
 * Assigns passes to shards: the most expensive first, each to the shard with the lowest cost so far (the first of
 * equals). Returns each shard's indices of `micro`, ascending; empty shards are omitted.
 */
export function assignShards(micro: readonly Sequences[], shards: number, packing = false): number[][] {
  const shares = Array.from({ length: shards }, () => ({ cost: 0, indices: [] as number[] }));
  const costs = micro.map((one, index) => ({ index, cost: costOf(one, packing) }));
  for (const { index, cost } of costs.sort((a, b) => b.cost - a.cost || a.index - b.index)) {
    const least = shares.reduce((a, b) => (b.cost < a.cost ? b : a));
    least.indices.push(index);
    least.cost += cost;
  }
  return shares.flatMap(({ indices }) => (indices.length > 0 ? [indices.sort((a, b) => a - b)] : []));
}
