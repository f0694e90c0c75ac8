/** `longhaul sft`: a supervised warm start from demonstrations, on the engine of reinforcement learning. */

import { Interrupted } from '../../../client/errors.ts';
import { readSftConfig } from '../../../recipes/sft/sft-config.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly out?: string;
}

/** Errors: `Interrupted`: nothing is stored before the end. */
async function sft(file: string, { out }: Options, { note, say, signal }: VerbContext): Promise<Outcome> {
  const config = await readSftConfig(file, out);
  // Loaded here, since the engine is slow to load, and logs while it loads.
  const { runSftConfig } = await import('../../../recipes/sft/run-sft.ts');
  try {
    const document = await runSftConfig(config, note, signal);
    say(`wrote ${config.out}: ${document.parameters} parameters, sha256 ${document.sha256}`);
    return { document };
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Interrupted('interrupted: nothing was written. The same command starts from the beginning', {
      cause: error,
    });
  }
}

export const sftVerb: Verb = {
  define(command, run) {
    command
      .description('Trains a policy on the demonstrations that CONFIG names and writes it in Hugging Face layout.')
      .argument('<config>', 'training configuration, YAML')
      .option('--out <dir>', 'where the policy is written; default: `out` of the configuration')
      .action((file: string, options: Options) => run((context) => sft(file, options, context)));
  },
};
