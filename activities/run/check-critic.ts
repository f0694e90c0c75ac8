/** What a run's critic begins as: found when the run opens, so that one that could not be trained is refused by its field. */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { criticFolder, readCheckpointRecord } from '../../trainer/checkpoints/checkpoint.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { readAdapterJson } from '../../trainer/lora/adapter-files.ts';
import type { LoraSettings } from '../../trainer/lora/lora-settings.ts';
import type { RunConfig } from '../../workflows/messages/run-config.ts';
import { UserInputError } from '../failures.ts';

type Described = (dir: string) => Promise<{ vocabulary: number }>;

/** Errors: `UserInputError` for a base that is no model, or that the policy's tokens are not the tokens of. */
async function checkBase(base: string, vocabulary: number, describePolicy: Described): Promise<string> {
  const field = 'algorithm.critic.base';
  const dir = await resolveModel(base);
  await access(join(dir, 'config.json')).catch(() => {
    throw new UserInputError(field, dir, 'give a directory with config.json: a model in Hugging Face layout');
  });
  const own = (await describePolicy(dir)).vocabulary;
  if (own === vocabulary) return dir;
  throw new UserInputError(field, dir, `give a model with the policy's tokens: it has ${own} vocabulary entries, the policy ${vocabulary}`);
}

const sameNames = (a: readonly string[], b: unknown): boolean => Array.isArray(b) && [...a].sort().join() === [...(b as string[])].sort().join();

/** An adapter goes on as the one that it is. Errors: `UserInputError` where `lora` says another one. */
async function checkAdapter(lora: LoraSettings | undefined, dir: string, left: string): Promise<void> {
  const json = lora && (await readAdapterJson(dir));
  if (lora === undefined || json === undefined) return;
  const { r: rank, lora_alpha: alpha, target_modules: targetModules } = json;
  if (lora.rank === rank && lora.alpha === alpha && sameNames(lora.targetModules, targetModules)) return;
  const own = JSON.stringify({ rank, alpha, targetModules });
  throw new UserInputError('algorithm.critic.lora', lora, `give ${own}, what the adapter in ${dir} is and goes on as, or leave it out: ${left}`);
}

/**
 * The directory that a critic begins as; `undefined` without one. Errors: `UserInputError`, also for settings that a critic
 * beside the base policy leaves without effect.
 */
export async function checkCritic({ algorithm: { critic } }: RunConfig, base: string, vocabulary: number, describePolicy: Described): Promise<string | undefined> {
  if (critic === undefined) return undefined;
  const isThere = (await readCheckpointRecord(base))?.critic !== undefined;
  if (isThere && critic.base !== undefined) {
    throw new UserInputError('algorithm.critic.base', critic.base, `leave it out: ${base} has a critic beside it, and the run goes on with that`);
  }
  if (isThere) await checkAdapter(critic.lora, join(base, criticFolder), 'it goes on all the same');
  const dir = critic.base === undefined ? base : await checkBase(critic.base, vocabulary, describePolicy);
  if (!isThere) await checkAdapter(critic.lora, dir, 'then it is trained whole');
  return dir;
}
