/** A policy in training with its optimizer, and the directory that it equals, so that what follows need not read it. */

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

/** A policy whose moments are read when they are asked for, and what its directory was like when it was read or written. */
export interface Resident {
  readonly learner: Learner;
  optimizer: AdamW | undefined;
  stamp: string;
}

/** What was said of adapters that were read: each thing once in a process. */
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
  // The moments of a whole policy are not those of an adapter beside it.
  const isNew = policy.adapter !== undefined && (await readAdapterJson(dir)) === undefined;
  const known = isNew ? undefined : await readVerifiedOptimizer(dir);
  return known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps);
}

/**
 * Reads weights, and moments where there are some. An adapter is trained as one; `lora` puts a new one beside other
 * policies. Errors: `UnsupportedModel`, `UnsupportedAdapter`, `WrongWeights`, `BadSafetensors`, `CheckpointTorn`.
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

/** What a checkpoint holds of a policy: its weights, or its adapter's alone. */
export function trainedPart({ policy }: Learner): { weights: Weights; adapter: AdapterJson | undefined } {
  return { weights: policy.adapter?.download() ?? policy.download(), adapter: policy.adapter?.json };
}

export function disposeTrainee({ learner, optimizer }: Pick<Resident, 'learner' | 'optimizer'>): void {
  learner.dispose();
  optimizer?.dispose();
}

type Origin = Pick<StateToLoad, 'dir' | 'lora'>;

/** The same directory is another policy where a new adapter is put beside it. */
const keyOf = ({ dir, lora }: Origin): string => JSON.stringify([dir, lora ?? null]);

/** At most one policy: the one that was given back last. */
export class ResidentPolicy {
  #held: { readonly key: string; readonly resident: Resident } | undefined;
  /** Policies that were read from their directories. */
  loads = 0;

  /** The policy of a directory; it is the caller's from now on, until `keep`. Errors: those of `loadTrainee`. */
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

  /** The directory holds the same as `resident`. */
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
    // Before reading: what is written meanwhile is another policy.
    const stamp = await stampOf(dir);
    return { learner: await loadLearner(dir, lora), optimizer: undefined, stamp };
  }
}
