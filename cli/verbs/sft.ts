/** `longhaul sft`: a supervised warm start from demonstrations, on the engine that reinforcement uses. */

import { runSftConfig } from '../sft/run-sft.ts';
import { readSftConfig } from '../sft/sft-config.ts';
import type { Verb } from '../verb.ts';

interface Options {
  readonly out?: string;
}

export const sftVerb: Verb = {
  define(command, run) {
    command
      .description('Trains a policy on the demonstrations that CONFIG names and writes it in Hugging Face layout.')
      .argument('<config>', 'training configuration, YAML')
      .option('--out <dir>', 'where the policy is written; default: `out` of the configuration')
      .action((file: string, options: Options) =>
        run(async (context) => {
          const config = await readSftConfig(file, options.out);
          const document = await runSftConfig(config, context.note);
          context.say(`wrote ${config.out}: ${document.parameters} parameters, sha256 ${document.sha256}`);
          return { document };
        }),
      );
  },
};
