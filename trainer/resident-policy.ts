/** Keeps a policy in training with its optimizer in memory, so that the next update need not read its directory. */

import { AdamW } from './optimizer.ts';
import type { StateToLoad } from './backend.ts';
import type { NewLora } from '../protocol/algorithm.ts';
import { Learner } from './learner.ts';
import { readAdapterJson } from './lora/adapter-files.ts';
import { newAdapter } from './lora/new-adapter.ts';
import { type AdapterJson, withoutEffect } from './lora/adapter-config.ts';
import type { Weights } from './model/weights.ts';
import { stampOf } from './checkpoints/policy-files.ts';
import { readVerifiedConfig, readVerifiedOptimizer, readVerifiedPolicy } from './checkpoints/verified-checkpoint.ts';

export interface Trainee {
  readonly learner: Learner;
  readonly optimizer: AdamW;
}

/** A policy whose moments are read on demand, and its directory's stamp from when it was read or written. */
export interface Resident {
  readonly learner: Learner;
  optimizer: AdamW | undefined;
  stamp: string;
}

/** Warnings about adapters that were written to stderr, each once per process. */
const said = new Set<string>();

function sayOnce(note: string | undefined): void {
  if (note === undefined || said.has(note)) return;
  said.add(note);
  process.stderr.write(`${note}\n`);
}

async function loadLearner(dir: string, lora: NewLora | undefined): Promise<Learner> {
  const [config, files] = await Promise.all([readVerifiedConfig(dir), readVerifiedPolicy(dir)]);
  sayOnce(files.adapter && withoutEffect(files.adapter.json));
  const fresh =
    lora === undefined || files.adapter !== undefined ? undefined : newAdapter(config, lora, dir, lora.seed);
  return new Learner(config, files.weights, files.adapter ?? fresh);
}

async function loadOptimizer(dir: string, { policy }: Learner): Promise<AdamW> {
  const { layout } = policy.trainable;
  // A fully trained policy's moments do not fit a new adapter on top of it.
  const isNew = policy.adapter !== undefined && (await readAdapterJson(dir)) === undefined;
  const known = isNew ? undefined : await readVerifiedOptimizer(dir);
  return known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps);
}

/**
 * Reads weights, and moments if there are any. If the policy is an adapter, the adapter is trained; otherwise `lora`
 * adds a new one. Errors: `UnsupportedModel`, `UnsupportedAdapter`, `WrongWeights`, `BadSafetensors`, `CheckpointTorn`.
 */
export async function loadTrainee(dir: string, lora?: NewLora): Promise<Trainee> {
  const learner = await loadLearner(dir, lora);
  try {
    return { learner, optimizer: await loadOptimizer(dir, learner) };
  } catch (error) {
    learner.dispose();
    throw error;
  }
}

/** The part that a checkpoint stores: the policy's weights, or only its adapter's. */
export function trainedPart({ policy }: Learner): { weights: Weights; adapter: AdapterJson | undefined } {
  return { weights: policy.adapter?.download() ?? policy.download(), adapter: policy.adapter?.json };
}

export function disposeTrainee({ learner, optimizer }: Pick<Resident, 'learner' | 'optimizer'>): void {
  learner.dispose();
  optimizer?.dispose();
}

type Origin = Pick<StateToLoad, 'dir' | 'lora'>;

/** `lora` is part of the key: the same directory with a new adapter is another policy. */
const keyOf = ({ dir, lora }: Origin): string => JSON.stringify([dir, lora ?? null]);

/** Holds at most one policy: the one that was passed to `keep` last. */
export class ResidentPolicy {
  #held: { readonly key: string; readonly resident: Resident } | undefined;
  /** Number of policies that were read from their directories. */
  loads = 0;

  /** The policy of a directory. The caller owns it until it calls `keep`. Errors: those of `loadTrainee`. */
  async take(state: StateToLoad): Promise<Resident> {
    const resident = (await this.#known(state)) ?? (await this.#load(state));
    try {
      if (state.optimizer) resident.optimizer ??= await loadOptimizer(state.dir, resident.learner);
      return resident;
    } catch (error) {
      disposeTrainee(resident);
      throw error;
    }
  }

  /** Takes back `resident`, which must equal its directory. */
  keep(origin: Origin, resident: Resident): void {
    if (this.#held !== undefined) disposeTrainee(this.#held.resident);
    this.#held = { key: keyOf(origin), resident };
  }

  async #known(origin: Origin): Promise<Resident | undefined> {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined) return undefined;
    const { key, resident } = held;
    if (key === keyOf(origin) && (await stampOf(origin.dir).catch(() => '')) === resident.stamp) return resident;
    disposeTrainee(resident);
    return undefined;
  }

  async #load({ dir, lora }: StateToLoad): Promise<Resident> {
    this.loads += 1;
    // Taken before reading, so that a policy written during the read has another stamp.
    const stamp = await stampOf(dir);
    return { learner: await loadLearner(dir, lora), optimizer: undefined, stamp };
  }
}
