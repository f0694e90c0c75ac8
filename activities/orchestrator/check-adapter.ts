/** An adapter that training begins with goes on as the one that it is: settings for a new one are refused unless they say the same. */

import { readAdapterJson } from '../../trainer/lora/adapter-files.ts';
import type { LoraSettings } from '../../protocol/algorithm.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** What an adapter may have that `lora` has no word for. */
const unsayable = ['use_rslora', 'rank_pattern', 'alpha_pattern', 'layers_to_transform', 'exclude_modules'];

const isUnset = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (typeof value === 'object' && Object.keys(value).length === 0);

const sameNames = (a: readonly string[], b: unknown): boolean =>
  Array.isArray(b) && [...a].sort().join() === [...(b as string[])].sort().join();

/** `left`: what becomes of it where `lora` is left out. Errors: `UserInputError` where `lora` says another one than is in `dir`. */
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
    `give ${own}, what the adapter in ${dir} is and goes on as, or leave it out: ${left}`,
  );
}

/** Of a policy, which goes on as an adapter in any case. Errors: `UserInputError` where `lora` says another one, or cannot say this one. */
export async function checkPolicyAdapter(field: string, lora: LoraSettings | undefined, dir: string): Promise<void> {
  const json = (lora && (await readAdapterJson(dir))) ?? {};
  const more = unsayable.find((name) => !isUnset(json[name]));
  if (more !== undefined) {
    throw new UserInputError(
      field,
      lora,
      `leave it out: the adapter in ${dir} goes on as the one that it is, with ${more} = ${JSON.stringify(json[more])}, for which there is no setting`,
    );
  }
  await checkAdapter(field, lora, dir, 'it goes on all the same');
}
