/** Backends that users' modules define. */

import type { Mutation } from '../mutation.ts';

const WRONG = "a backend's function throws, never returns, or returns what cannot be true";
const DIES = 'an update on a backend of a module dies after it saved its state';
const LACKS = 'a run asks for what its backend cannot do';
const CALLS = 'trainer/backends/backend-calls.ts';
const CALLS_TEST = 'test/trainer/backends/backend-calls.test.ts';
const RUN_TEST = 'test/activities/backends/run-on-bigram.test.ts';

export const backends: readonly Mutation[] = [
  {
    name: 'a log-probability above 0 is used',
    fault: WRONG,
    file: CALLS,
    before: 'if (above >= 0)',
    after: 'if (above < -1)',
    tests: [{ file: CALLS_TEST, test: 'of sample: a log-probability above 0' }],
  },
  {
    name: 'a call of a backend has no deadline',
    fault: WRONG,
    file: CALLS,
    before: 'await Promise.race([work(AbortSignal.any([signal, over.signal])), late])',
    after: 'await work(AbortSignal.any([signal, over.signal]))',
    tests: [{ file: CALLS_TEST, test: 'that does not return ends in its time, and its signal with it', hangs: true }],
  },
  {
    name: 'all attempts of an update save under one name',
    fault: DIES,
    file: 'activities/update/update-input.ts',
    before: '`${run}/step-${step}/${own}`',
    after: "`${run}/step-${step}/${own === '' ? '' : 'state'}`",
    tests: [{ file: RUN_TEST, test: 'that dies after it saved trains again from the saved state before' }],
  },
  {
    name: 'settings that a backend lacks are ignored',
    fault: LACKS,
    file: 'config/backend-settings.ts',
    before: 'if (found !== undefined) {',
    after: 'if (found !== undefined && config.run === undefined) {',
    tests: [{ file: RUN_TEST, test: 'policy.lora' }],
  },
];
