/** Supervised training that continues where it was, on what it was given. */

import type { Mutation } from '../mutation.ts';

const KILLED = 'a supervised training is killed between two steps';
const EVALUATED = 'records of an evaluation are in the training data too';
const WEIGHTS = 'a chat has messages of the assistant that must not be trained';
const RUN_TEST = 'test/recipes/sft/run-sft.test.ts';

export const supervised: readonly Mutation[] = [
  {
    name: 'a supervised training that continues takes its last step again',
    fault: KILLED,
    file: 'trainer/sft.ts',
    before: 'if (number > from) {',
    after: 'if (number >= from && number > 0) {',
    tests: [{ file: RUN_TEST, test: 'killed after any step' }],
  },
  {
    name: 'saved states of another training are continued',
    fault: KILLED,
    file: 'trainer/sft-states.ts',
    before: 'if (record === undefined || !isMadeFrom(record, input)) throw new OtherTraining(dir);',
    after: 'if (record === undefined) throw new OtherTraining(dir + String(isMadeFrom));',
    tests: [{ file: RUN_TEST, test: 'saved states of other settings' }],
  },
  {
    name: 'records of the evaluation are trained on',
    fault: EVALUATED,
    file: 'recipes/sft/record-source.ts',
    before: 'const trained = all.rows.filter(({ key }) => !held.has(key));',
    after: 'const trained = all.rows;',
    tests: [{ file: 'test/recipes/sft/record-source.test.ts', test: 'kept from training' }],
  },
  {
    name: 'every message of the assistant is trained',
    fault: WEIGHTS,
    file: 'recipes/sft/chat-sequences.ts',
    before: 'sequence.add(said, tokenizer.encode(said), trained);',
    after: 'sequence.add(said, tokenizer.encode(said), trained || true);',
    tests: [{ file: 'test/recipes/sft/chat-sequences.test.ts', test: 'messages that are not trained are context' }],
  },
];
