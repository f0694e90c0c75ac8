/** `AdapterTrainer` over one base in this thread. A call that throws changes nothing. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AdamParameters, AdapterSettings, TinkerPass, TinkerPassResult } from '../../protocol/tinker.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { UnsupportedAdapter } from '../lora/adapter-config.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { newAdapter } from '../lora/new-adapter.ts';
import { type Tensor, add } from '../model/layers/kernels.ts';
import { AdamW, normOf, TrainingDiverged, WeightsDiverged } from '../optimizer.ts';
import { tf } from '../tensorflow.ts';
import { loadAdapter, loadTraining, saveAdapter } from './adapter-files.ts';
import { adapterPass, PASS_MEMORY, type PassMemory } from './adapter-pass.ts';
import { checkAdam, checkPass, checkSettings } from './check-pass.ts';
import type { AdapterTrainer, SavedAdapter } from './definition.ts';
import { LowRankAdapter, LowRankGradients } from './low-rank-adapter.ts';
import { type PassBatch, passBatches } from './pass-batches.ts';
import type { TenantBase } from './tenant-base.ts';
import { type DatumLoss, datumLoss, passMetrics } from './token-losses.ts';

const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
const MLP = ['gate_proj', 'up_proj', 'down_proj'];

const NOT_FINITE =
  "the norm of the gradient's sum is not finite: check weights, advantages and log-probabilities, " +
  'and lower the learning rate';

const LARGE_STEP =
  'the weights after this step would not be finite: lower the learning rate or the weight decay. ' +
  'The model is as it was before the step';

interface Tenant {
  readonly lowRank: LowRankAdapter;
  optimizer: AdamW;
  /** [layout.size]: the sum since the last step; `undefined`: none was added. */
  gradient: Tensor | undefined;
}

function disposeTenant({ lowRank, optimizer, gradient }: Tenant): void {
  lowRank.dispose();
  optimizer.dispose();
  gradient?.dispose();
}

/** Each datum's part of a batch's numbers. */
function* partsOf(batch: PassBatch, data: TinkerPass['data'], values: Float32Array) {
  let at = 0;
  for (const index of batch.members) {
    const length = data[index]?.targets.length ?? 0;
    yield { index, at, own: values.slice(at, at + length) };
    at += length;
  }
}

export class TenantAdapters implements AdapterTrainer {
  readonly #base: TenantBase;
  readonly #memory: PassMemory;
  readonly #tenants = new Map<string, Tenant>();

  constructor(base: TenantBase, memory: PassMemory = PASS_MEMORY) {
    this.#base = base;
    this.#memory = memory;
  }

  /** Number of adapters in memory. */
  get size(): number {
    return this.#tenants.size;
  }

  /**
   * With tied embeddings `unembed` has no effect: the head is the embedding. Errors: `UserInputError` if the settings
   * choose no module.
   */
  async create(id: string, settings: AdapterSettings): Promise<void> {
    checkSettings(settings);
    const { config } = this.#base.policy;
    const { rank, alpha, seed, attention, mlp, unembed } = settings;
    const targetModules = [
      ...(attention ? ATTENTION : []),
      ...(mlp ? MLP : []),
      ...(unembed && !config.tiedEmbeddings ? ['lm_head'] : []),
    ];
    if (targetModules.length === 0)
      throw new UserInputError(
        'unembed',
        unembed,
        'train attention or the MLP as well: this model has no head of its own to train',
      );
    this.#put(id, this.#tenant(newAdapter(config, { rank, alpha, targetModules }, this.#base.dir, seed)));
  }

  async load(id: string, dir: string, options: { readonly optimizer: boolean }): Promise<void> {
    const tenant = this.#tenant(await loadAdapter(dir, this.#base.dir));
    try {
      if (options.optimizer) await loadInto(tenant, dir);
      this.#put(id, tenant);
    } catch (error) {
      disposeTenant(tenant);
      throw error;
    }
  }

  async pass(id: string, pass: TinkerPass, signal?: AbortSignal): Promise<TinkerPassResult> {
    const tenant = this.#get(id);
    checkPass(pass, this.#base.policy.config);
    const sums = new LowRankGradients(tenant.lowRank);
    const losses: DatumLoss[] = [];
    const logprobs: Float32Array[] = [];
    /** Losses of the batch's datums; returns their slopes. */
    const respond = (batch: PassBatch, given: Float32Array): Float32Array => {
      const slopes = new Float32Array(given.length);
      for (const { index, at, own } of partsOf(batch, pass.data, given)) {
        const loss = datumLoss(pass, index, own);
        [logprobs[index], losses[index]] = [own, loss];
        slopes.set(loss.slope, at);
      }
      return slopes;
    };
    try {
      for (const batch of passBatches(pass.data, this.#memory.batchTokens)) {
        signal?.throwIfAborted();
        const own = (given: Float32Array): Float32Array => respond(batch, given);
        const backward = pass.backward ? { into: sums, respond: own } : undefined;
        const given = adapterPass(this.#base, tenant.lowRank, batch, backward, this.#memory);
        if (!pass.backward) own(given);
        // Lets the thread handle messages between batches.
        await nextTurn();
      }
      // Also after the last batch: the caller was told that nothing was added.
      signal?.throwIfAborted();
      if (pass.backward) addGradient(tenant, sums.flatten());
    } finally {
      sums.clear();
    }
    return { logprobs, metrics: passMetrics(pass, losses) };
  }

  async optimStep(id: string, adam: AdamParameters): Promise<{ readonly gradNorm: number }> {
    const tenant = this.#get(id);
    checkAdam(adam);
    const { adapter } = tenant.lowRank;
    const gradient = tenant.gradient ?? tf.zeros([adapter.layout.size]);
    const { learningRate, beta1, beta2, eps, weightDecay, gradClipNorm } = adam;
    const by = { learningRate, betas: [beta1, beta2], epsilon: eps, weightDecay } as const;
    try {
      const maxGradNorm = gradClipNorm > 0 ? gradClipNorm : null;
      const gradNorm = tenant.optimizer.apply(adapter, gradient, { ...by, maxGradNorm }, { isChecked: true });
      tenant.gradient = undefined;
      return { gradNorm };
    } catch (error) {
      if (error instanceof WeightsDiverged) {
        if (gradient !== tenant.gradient) gradient.dispose();
        throw new UserInputError('learningRate', learningRate, LARGE_STEP, { cause: error });
      }
      // The optimizer has freed it.
      tenant.gradient = undefined;
      // No pass adds such a gradient. A state of an earlier version may have one; it is dropped.
      if (!(error instanceof TrainingDiverged)) throw error;
      throw new UserInputError('gradient', error.gradNorm, NOT_FINITE, { cause: error });
    }
  }

  async save(id: string, dir: string, what: 'sampler' | 'training'): Promise<SavedAdapter> {
    const { lowRank, optimizer, gradient } = this.#get(id);
    const { json, layout } = lowRank.adapter;
    const training = what === 'training' && {
      steps: optimizer.steps,
      moments: optimizer.save(layout),
      gradient: gradient?.dataSync() as Float32Array | undefined,
    };
    const weights = { json, tensors: lowRank.adapter.download() };
    return saveAdapter(dir, this.#base.dir, weights, layout, training || undefined);
  }

  async drop(id: string): Promise<void> {
    const tenant = this.#tenants.get(id);
    this.#tenants.delete(id);
    if (tenant !== undefined) disposeTenant(tenant);
  }

  /** Frees all adapters, not the base. */
  dispose(): void {
    for (const tenant of this.#tenants.values()) disposeTenant(tenant);
    this.#tenants.clear();
  }

  #tenant(weights: AdapterWeights): Tenant {
    try {
      const lowRank = new LowRankAdapter(this.#base.policy, weights);
      return { lowRank, optimizer: AdamW.fresh(lowRank.adapter.layout), gradient: undefined };
    } catch (error) {
      if (!(error instanceof UnsupportedAdapter)) throw error;
      throw new UserInputError(error.field, error.value, error.message, { cause: error });
    }
  }

  #get(id: string): Tenant {
    const tenant = this.#tenants.get(id);
    if (tenant === undefined) throw new UserInputError('id', id, 'create or load the adapter first');
    return tenant;
  }

  #put(id: string, tenant: Tenant): void {
    const before = this.#tenants.get(id);
    this.#tenants.set(id, tenant);
    if (before !== undefined) disposeTenant(before);
  }
}

async function loadInto(tenant: Tenant, dir: string): Promise<void> {
  const { layout } = tenant.lowRank.adapter;
  const { moments, steps, gradient } = await loadTraining(dir, layout);
  const loaded = AdamW.load(layout, moments, steps);
  tenant.optimizer.dispose();
  tenant.optimizer = loaded;
  tenant.gradient = gradient && tf.keep(tf.tensor1d(gradient));
}

/**
 * Adds a pass's gradient, which it owns from then on. Errors: `UserInputError` if the sum is not finite: then nothing
 * is added, since every later step would fail by it.
 */
function addGradient(tenant: Tenant, gradient: Tensor): void {
  const before = tenant.gradient;
  const sum = before === undefined ? gradient : add(before, gradient);
  if (before !== undefined) gradient.dispose();
  const norm = normOf(sum);
  if (!Number.isFinite(norm)) {
    sum.dispose();
    throw new UserInputError('data', norm, `${NOT_FINITE}; nothing was added`);
  }
  before?.dispose();
  tenant.gradient = tf.keep(sum);
}
