/** A context that is full, and engines whose products differ. */

import type { Mutation } from '../mutation.ts';

const PROMPT = "a task's prompt fills the context";
const KINDS = 'a GPU worker on another kind of machine, or of another build, joins a run';
const GENERATE_TEST = 'test/activities/generate/generate.test.ts';
const OPEN_ENGINE_TEST = 'test/activities/generate/open-engine.test.ts';
const KINDS_TEST = 'test/workflows/engine-kinds.test.ts';
const FIRST_PROMPTS_TEST = 'test/cli/first-prompts.test.ts';

export const engines: readonly Mutation[] = [
  {
    name: "a prompt that fills the context is graded as the policy's",
    fault: PROMPT,
    file: 'activities/generate/sample-ids.ts',
    before: 'if (input.turn === 1) throw new PromptTooLong(input.task, context.length, maxContextTokens);',
    after: '',
    tests: [{ file: GENERATE_TEST, test: 'never comes about by a prompt that fills the context' }],
  },
  {
    name: 'a request that no memory can hold is admitted',
    fault: PROMPT,
    file: 'trainer/sampler/cache/cache-budget.ts',
    before: 'tokens: Math.min(configured, inMemory)',
    after: 'tokens: configured',
    // The sampler's own test would wait forever.
    tests: [{ file: OPEN_ENGINE_TEST, test: 'refuses a context above that of the configuration' }],
  },
  {
    name: 'turns are sampled by any kind of engine',
    fault: KINDS,
    file: 'workflows/activity-stubs.ts',
    before: 'taskQueue: kindQueue(QUEUES.gpu, kind) });',
    after: 'taskQueue: QUEUES.gpu });',
    tests: [{ file: KINDS_TEST, test: 'what a run begins with makes its turns and updates' }],
  },
  {
    name: 'the kind of a run is that of the worker that was asked last',
    fault: KINDS,
    file: 'activities/generate/open-engine.ts',
    before: 'if (known && !isOwn(known, deps)) return opened(known);',
    after: 'if (known) return { kinds: { sampling: kinds?.sampling.id ?? "" } };',
    tests: [{ file: OPEN_ENGINE_TEST, test: 'of the first worker that is asked makes the products' }],
  },
  {
    name: 'a plan with a first prompt that is too long is a good one',
    fault: PROMPT,
    file: 'cli/check/first-prompts.ts',
    before: 'return isTooLong ? 2 : 0;',
    after: 'return 0;',
    tests: [{ file: FIRST_PROMPTS_TEST, test: 'names one that is too long' }],
  },
  {
    name: 'a plan calls the start of a task',
    fault: PROMPT,
    file: 'cli/check/first-prompts.ts',
    before: '      if (await this.#asksOthers(key, ref)) continue;\n',
    after: '',
    tests: [{ file: FIRST_PROMPTS_TEST, test: 'what start says is left to check' }],
  },
];
