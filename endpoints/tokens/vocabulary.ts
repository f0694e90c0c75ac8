/** The size of a vocabulary, read from a model's files: every id that a server may return is below it. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** `vocab_size` of the model in `dir`, or one more than the highest id that its tokenizer has. */
export async function vocabularyIn(dir: string): Promise<number> {
  const read = async (file: string) => JSON.parse(await readFile(join(dir, file), 'utf8')) as Record<string, unknown>;
  const { vocab_size: size } = await read('config.json').catch((): Record<string, unknown> => ({}));
  if (Number.isSafeInteger(size) && Number(size) > 0) return Number(size);
  const { model, added_tokens: added } = await read('tokenizer.json');
  const ids = Object.values((model as { vocab?: Record<string, number> } | undefined)?.vocab ?? {});
  const more = Array.isArray(added) ? added.map((one: { id?: number }) => one.id ?? 0) : [];
  return [...ids, ...more].reduce((most, id) => Math.max(most, id), 0) + 1;
}
