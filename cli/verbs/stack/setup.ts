/** `longhaul setup`: the set-up, where the package is: a clone, or somebody's `node_modules`. */

import { setUp } from '#setup/steps/set-up.mjs';
import type { Verb } from '../../verb.ts';

export const setupVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Makes what running Longhaul on this machine needs (the engine, the supervisor of sandboxes, the bundle of workflows, ' +
          "Temporal's server) and keeps it in $LONGHAUL_CACHE, default ~/.cache/longhaul. Again: only what is missing.",
      )
      .action(() =>
        run(async ({ env, note, say }) => {
          const steps: Array<{ readonly name: string; readonly seconds: number; readonly result: string }> = [];
          const node = await setUp({ env, say: note, onStep: (step) => steps.push(step) });
          say('the set-up is done: npx longhaul doctor shows what is here');
          return { document: { node, steps } };
        }),
      );
  },
};
