/**
 * Training that starts from an adapter continues it: settings for a new adapter are refused unless they equal the
 * adapter's own.
 */

import { readAdapterJson } from '../../trainer/lora/adapter-files.ts';
import type { LoraSettings } from '../../protocol/algorithm.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** Fields of an adapter for which `lora` has no setting. */
const unsayable = ['use_rslora', 'rank_pattern', 'alpha_pattern', 'layers_to_transform', 'exclude_modules'];

const isUnset = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (typeof value === 'object' && Object.keys(value).length === 0);

const sameNames = (a: readonly string[], b: unknown): boolean =>
  Array.isArray(b) && [...a].sort().join() === [...(b as string[])].sort().join();

/** `left`: what happens if `lora` is left out. Errors: `UserInputError` if `lora` differs from the adapter in `dir`. */
export async function checkAdapter(
  field: string,
  lora: LoraSettings | undefined,
  dir: string,
  left: string,
): Promise<void> {
  const json = lora && (await readAdapterJson(dir));
  if (lora === undefined || json === undefined) return;
  const { r: rank, lora_alpha: alpha, target_modules: targetModules } = json;
  if (lora.rank === rank && lora.alpha === alpha && sameNames(lora.targetModules, targetModules)) return;
  const own = JSON.stringify({ rank, alpha, targetModules });
  throw new UserInputError(
    field,
    lora,
    `give ${own}, the settings of the adapter in ${dir}, which training continues, or leave it out: ${left}`,
  );
}

/**
 * For a policy, whose adapter is trained in any case. Errors: `UserInputError` if `lora` differs from it, or cannot
 * express it.
 */
export async function checkPolicyAdapter(field: string, lora: LoraSettings | undefined, dir: string): Promise<void> {
  const json = (lora && (await readAdapterJson(dir))) ?? {};
  const more = unsayable.find((name) => !isUnset(json[name]));
  if (more !== undefined) {
    throw new UserInputError(
      field,
      lora,
      `leave it out: training continues the adapter in ${dir} as it is, ` +
        `with ${more} = ${JSON.stringify(json[more])}, for which there is no setting`,
    );
  }
  await checkAdapter(field, lora, dir, 'the adapter is trained in any case');
}
