/** `longhaul setup`: runs the set-up, in a clone and in an installed package. */

import { setUp } from '#setup/steps/set-up.mjs';
import type { Verb } from '../../verb.ts';

export const setupVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Fetches and builds what Longhaul needs on this machine (the engine, the supervisor of sandboxes, ' +
          'the bundle of workflows, ' +
          "Temporal's server) into $LONGHAUL_CACHE, default ~/.cache/longhaul. " +
          'A second call makes only what is missing.',
      )
      .action(() =>
        run(async ({ env, note, say }) => {
          const steps: Array<{ readonly name: string; readonly seconds: number; readonly result: string }> = [];
          const node = await setUp({ env, say: note, onStep: (step) => steps.push(step) });
          say('the set-up is done; check this machine with: npx longhaul doctor');
          return { document: { node, steps } };
        }),
      );
  },
};
