/** `longhaul sft`: a supervised warm start from chats or demonstrations, on the engine of reinforcement learning. */

import { Interrupted } from '../../../client/errors.ts';
import { readSftConfig } from '../../../recipes/sft/sft-config.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly out?: string;
  readonly set?: readonly string[];
  readonly dryRun?: boolean;
}

/** Errors: `Interrupted`, which says from which step the same command continues. */
async function sft(file: string, { out, set, dryRun }: Options, context: VerbContext): Promise<Outcome> {
  const { note, say, signal } = context;
  const config = await readSftConfig(file, { out, set });
  // Loaded here, since the engine is slow to load, and logs while it loads.
  const { planSft, runSftConfig } = await import('../../../recipes/sft/run-sft.ts');
  if (dryRun === true) {
    const plan = await planSft(config, note);
    for (const { data, steps } of plan.stages) say(`${steps} steps of ${data}`);
    return { document: plan };
  }
  let saved = 0;
  try {
    const document = await runSftConfig(config, { note, signal, onSaved: (steps) => (saved = steps) });
    say(`wrote ${config.out}: ${document.parameters} parameters, sha256 ${document.sha256}`);
    return { document };
  } catch (error) {
    if (!signal.aborted) throw error;
    const rest =
      saved === 0
        ? 'nothing was written. The same command starts from the beginning'
        : `the state after step ${saved} is saved. The same command continues from it`;
    throw new Interrupted(`interrupted: ${rest}`, { cause: error });
  }
}

export const sftVerb: Verb = {
  define(command, run) {
    command
      .description('Trains a policy on the data that CONFIG names and writes it in Hugging Face layout.')
      .argument('<config>', 'training configuration, YAML')
      .option('--out <dir>', 'where the policy is written; default: `out` of the configuration')
      .option(
        '--set <a.b=c>',
        'change one setting, the value in YAML; may be repeated',
        (value: string, all: string[]) => [...all, value],
        [],
      )
      .option('--dry-run', 'reads and checks settings and records, and prints the number of steps')
      .action((file: string, options: Options) => run((context) => sft(file, options, context)));
  },
};
