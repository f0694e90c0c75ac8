/** Makes versions of a policy and its critic, one after the other, and compares their files. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { UpdateRequest } from '../../../trainer/update-request.ts';
import type { Updater } from '../../../trainer/update.ts';
import { qwen3Dir } from '../tiny-policy.ts';

/** SHA-256 of each file: a difference of the bytes themselves would take minutes to print. */
export const digestsOf = (dir: string, names: readonly string[]): Promise<string[]> =>
  Promise.all(
    names.map(async (name) =>
      createHash('sha256')
        .update(await readFile(path.join(dir, name)))
        .digest('hex'),
    ),
  );

type RequestOf = (fromDir: string, toDir: string, toVersion: number, more: Partial<UpdateRequest>) => UpdateRequest;

/**
 * Makes versions 1 … `count` in `dir` from the tiny policy, each by the updater that `updater` returns. Returns their
 * directories.
 */
export const updatesBy =
  (request: RequestOf) =>
  async (
    dir: string,
    name: string,
    count: number,
    updater: () => Updater,
    more: Partial<UpdateRequest> = {},
  ): Promise<string[]> => {
    const dirs = [qwen3Dir];
    for (let version = 1; version <= count; version++) {
      dirs.push(path.join(dir, `${name}-${version}`));
      await updater().run(request(dirs[version - 1]!, dirs[version]!, version, more));
    }
    return dirs.slice(1);
  };
