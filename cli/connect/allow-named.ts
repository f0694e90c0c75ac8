/** Allows this folder's workers to use what the user names on the command line: writes it to the stack's home. */

import { dirname } from 'node:path';
import { weightsDirectory } from '../../trainer/lora/adapter-files.ts';
import { type LocalWord, sayWord } from '../../workers/allowed/local-words.ts';
import { type Named, namedInInput } from '../../workers/allowed/named-in-input.ts';
import { realPath } from '../../workers/allowed/places.ts';
import { refuseUnusableDisks, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import type { SweepConfig } from '../../protocol/eval.ts';
import type { RolloutInput } from '../../protocol/rollout.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import type { VerbContext } from '../verb.ts';
import { allowModules } from './run-modules.ts';

type Surroundings = Pick<VerbContext, 'env' | 'cwd'>;

/** An adapter allows its base too. */
async function wordsFor({ path, kind }: Named): Promise<LocalWord[]> {
  if (kind === 'run') return [{ kind: 'write', path: realPath(dirname(path)) }];
  const base = kind === 'policy' ? await weightsDirectory(path).catch(() => path) : path;
  return [...new Set([path, base])].map((dir) => ({ kind: 'read', path: realPath(dir) }));
}

async function allow({ env, cwd }: Surroundings, named: readonly Named[]): Promise<void> {
  const home = stackHome(env, cwd);
  refuseUnusableDisks(stackPlaces(home, env));
  for (const one of named) {
    for (const word of await wordsFor(one)) sayWord(home, word);
  }
}

/** Errors: `DiskUnusable`. */
export async function allowRun(around: Surroundings, config: RunConfig): Promise<void> {
  await allow(around, namedInInput('openRun', [config, config.run]));
  await allowModules(around, config);
}

export async function allowEval(around: Surroundings, config: SweepConfig): Promise<void> {
  await allow(around, namedInInput('openSweep', [{ given: config, eval: config.eval }]));
  await allowModules(around, config);
}

export function allowRollout(around: Surroundings, input: RolloutInput): Promise<void> {
  return allow(around, namedInInput('generate', [input]));
}
