/** Runs before every activity of every worker: checks the folders that the activity's input names. */

import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { parse } from 'yaml';
import { evalFolder } from '../../reports/evaluation/eval-records.ts';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { weightsDirectory } from '../../trainer/lora/adapter-files.ts';
import { brokenNumber, type Named, namedInInput } from './named-in-input.ts';
import { checkPlace, type Places, realPath } from './places.ts';

/** Names of the files and folders in the folder of a run or of an eval. */
const OURS =
  /^(config\.yaml|summary\.json|results\.json|(metrics|changes|rollouts)\.jsonl|(learning-curve|pass-at-k)\.svg|checkpoints|policies|tensorboard|trajectories|updates)(\.partial-[\w-]+)?$/;

/** Files that the file browsers of operating systems leave in every folder that somebody opens. */
const OF_BROWSERS: ReadonlySet<string> = new Set(['.DS_Store', 'Thumbs.db', 'desktop.ini']);

/** True if the `config.yaml` of a run or an eval is there and names the folder: people may add notes and plots. */
async function isBegun(path: string): Promise<boolean> {
  try {
    const {
      dir,
      run,
      eval: sweep,
    } = parse(await readFile(join(path, 'config.yaml'), 'utf8')) as Record<string, unknown>;
    const name = run ?? sweep;
    return (
      typeof dir === 'string' &&
      typeof name === 'string' &&
      realPath(resolve(evalFolder(dir, name))) === realPath(resolve(path))
    );
  } catch {
    return false;
  }
}

/** Errors: `UserInputError` for a folder that holds no run but other files: a run would write among them. */
async function checkOurs({ field, path }: Named): Promise<void> {
  const foreign = (await readdir(path).catch(() => [])).find((name) => !OURS.test(name) && !OF_BROWSERS.has(name));
  if (foreign === undefined || (await isBegun(path))) return;
  throw new UserInputError(
    field,
    path,
    `give another folder or another name, or move ${foreign} out: the folder has files that are not from a run ` +
      'or an eval',
  );
}

async function check(places: Places, one: Named): Promise<void> {
  const { field, path, kind } = one;
  checkPlace(places, kind === 'write' || kind === 'run' ? 'write' : 'read', field, path);
  if (kind === 'run') await checkOurs(one);
  // A folder that cannot be read as an adapter fails where it is read.
  if (kind === 'policy') checkPlace(places, 'read', field, await weightsDirectory(path).catch(() => path));
}

/** Errors: those of the check, before the activity starts. */
export function guardPlaces(places: Places): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      async execute(input, next) {
        await withFailureMapping(async () => {
          const broken = brokenNumber(input.args);
          if (broken !== undefined)
            throw new UserInputError(broken.field, broken.value, 'give a whole number of at least 0');
          for (const one of namedInInput(info.activityType, input.args)) await check(places, one);
        });
        return next(input);
      },
    },
  });
}
