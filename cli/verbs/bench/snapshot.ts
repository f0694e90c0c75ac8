/** `longhaul bench snapshot`: the times of snapshots of sandboxes. */

import { benchSnapshot } from '../../../benchmarks/snapshot.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

async function snapshot({ megabytes }: { readonly megabytes: string }, context: VerbContext): Promise<Outcome> {
  const sizes = megabytes.split(',').map((size) => wholeNumber('--megabytes', size, 1, 4000));
  const snapshots = await benchSnapshot(sizes, context.env, context.note);
  for (const { megabytes: size, pieces, takeSeconds, restoreSeconds } of snapshots)
    context.say(
      `${size} MB in ${pieces} pieces: taken in ${takeSeconds.toFixed(1)} s, a new sandbox in ` +
        `${restoreSeconds.toFixed(1)} s`,
    );
  return { document: { snapshots } };
}

export const snapshotBench: Verb = {
  define(command, run) {
    command
      .command('snapshot')
      .description('a snapshot of a sandbox with one random file, and a new sandbox that is made of it')
      .option('--megabytes <n,n>', 'sizes, one after the other', '60,200,500')
      .action((options: { readonly megabytes: string }) => run((context) => snapshot(options, context)));
  },
};
