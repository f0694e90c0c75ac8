/** `longhaul bench NAME`: measures one part against a peer in the same run. */

import { Interrupted } from '../../client/errors.ts';
import type { Verb, Work } from '../verb.ts';
import { asyncBench } from './bench/async.ts';
import { batchBench } from './bench/batch.ts';
import { codeSearchBench } from './bench/code-search.ts';
import { dispatchBench } from './bench/dispatch.ts';
import { durabilityBench } from './bench/durability.ts';
import { orchestrationBench } from './bench/orchestration.ts';
import { poolBench } from './bench/pool.ts';
import { sampleBench } from './bench/sample.ts';
import { sandboxBench } from './bench/sandbox.ts';
import { snapshotBench } from './bench/snapshot.ts';
import { soakBench } from './bench/soak.ts';
import { trainBench } from './bench/train.ts';

const BENCHES: readonly Verb[] = [
  orchestrationBench,
  batchBench,
  dispatchBench,
  durabilityBench,
  asyncBench,
  sandboxBench,
  snapshotBench,
  codeSearchBench,
  sampleBench,
  poolBench,
  trainBench,
];

/** Nothing of a bench continues without it, so Ctrl-C ends it at once. Errors: `Interrupted`. */
function untilInterrupted(work: Work): Work {
  return (context) => {
    const { promise, reject } = Promise.withResolvers<never>();
    context.signal.addEventListener('abort', () => reject(new Interrupted('interrupted: nothing was measured')), {
      once: true,
    });
    return Promise.race([work(context), promise]);
  };
}

export const benchVerb: Verb = {
  define(command, run) {
    for (const bench of BENCHES) bench.define(command, (work) => run(untilInterrupted(work)));
    // It must stop its stack after Ctrl-C.
    soakBench.define(command, run);
  },
};
