/** What a policy wrote is read as it meant it, and what it said is not judged as something else. */

import type { Mutation } from '../mutation.ts';

const REASONED = 'a policy writes a call while it reasons, or a tag of reasoning into an argument';
const CHANGED_POLICY = 'reasoning is removed from later prompts';
const STUCK = 'a policy repeats itself, or does not see that its turns end';
const REPLAYED = 'transcripts are played again after tools, agents or tasks have changed';
const CODECS_TEST = 'test/agents/codecs/codecs.test.ts';
const CONVERSATION_TEST = 'test/activities/generate/conversation.test.ts';
const HINTS_TEST = 'test/agents/hints.test.ts';
const REPLAY_TEST = 'test/activities/replay.test.ts';

export const conversations: readonly Mutation[] = [
  {
    name: 'a call inside of reasoning runs',
    fault: REASONED,
    file: 'agents/codecs/codec.ts',
    before: 'if (open < start) return this.#skipReasoning(open);',
    after: 'void open;',
    tests: [{ file: CODECS_TEST, test: 'never runs a call' }],
  },
  {
    name: 'calls before the end of a reasoning that the template opened run',
    fault: REASONED,
    file: 'agents/codecs/codec.ts',
    before: 'if (close < open && close < start) return this.#leaveReasoning(close);',
    after: 'void close;',
    tests: [{ file: CODECS_TEST, test: 'never runs a call' }],
  },
  {
    name: 'a prompt without the earlier reasoning extends what was sampled',
    fault: CHANGED_POLICY,
    file: 'activities/generate/sample-ids.ts',
    before: 'if (this.spoken(record).content !== spoken(record).content) return undefined;',
    after: '',
    tests: [{ file: CONVERSATION_TEST, test: 'is removed from later prompts' }],
  },
  {
    name: 'a hint is given after every turn of a repetition',
    fault: STUCK,
    file: 'agents/hints.ts',
    before: 'every > 0 && count > 0 && count % every === 0;',
    after: 'every > 0 && count >= every;',
    tests: [{ file: HINTS_TEST, test: 'applies to the same calls in a row' }],
  },
  {
    name: 'a replayed call of a tool that is gone is answered as a mistake of the policy',
    fault: REPLAYED,
    file: 'activities/generate/replayed-turn.ts',
    before: 'if (answer?.refused !== true && !isNotRun) return name;',
    after: 'void isNotRun;',
    tests: [{ file: REPLAY_TEST, test: 'fails by name if a tool that it called is gone' }],
  },
  {
    name: 'other tasks under the same keys are played',
    fault: REPLAYED,
    file: 'activities/orchestrator/sweep/open-replay.ts',
    before: 'then.digest !== now.digest)',
    after: "then.digest === '')",
    tests: [{ file: REPLAY_TEST, test: 'must mean the same tasks by the same keys' }],
  },
];
