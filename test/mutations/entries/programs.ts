/** Programs that are agents: what they report, how they end, what is lost under them; and images of tools. */

import type { Mutation } from '../mutation.ts';

const PROGRAM = 'a program that is the agent dies, hangs, reports wrongly, or loses its worker or its sandbox';
const IMAGES = "a tool's answer has images that a policy cannot take, or files that are none";
const IMAGES_TEST = 'test/activities/agent-run/images.test.ts';
const HEADER_TEST = 'test/agents/tools/image-header.test.ts';
const EXTERNAL_TEST = 'test/workflows/rollout/external-rollout.test.ts';

export const programs: readonly Mutation[] = [
  {
    name: 'the silence of a program elsewhere is graded',
    fault: PROGRAM,
    file: 'workflows/rollout/await-program.ts',
    before: 'throw silent(program.timeoutSeconds);',
    after: "return { type: 'program-ended', finish: 'program-timeout' };",
    tests: [{ file: EXTERNAL_TEST, test: 'that is silent until its time is over has no reward' }],
  },
  {
    name: 'a wrong report enters the history',
    fault: PROGRAM,
    file: 'workflows/rollout/program-reports.ts',
    before: 'if (problem !== undefined) throw refusal(REFUSED.wrong, problem);',
    after: 'if (problem === undefined) this.#received += 0;',
    tests: [{ file: EXTERNAL_TEST, test: 'is refused by name, and nothing of it is in the history' }],
  },
  {
    name: 'a program runs again after a lost worker',
    fault: PROGRAM,
    file: 'activities/agent-run/program.ts',
    before: 'callId: `${attemptKey(input)}/program`',
    after: 'callId: `${attemptKey(input)}/program-${Date.now()}`',
    tests: [{ file: EXTERNAL_TEST, test: 'runs once, however many workers run its activity' }],
  },
  {
    name: 'a report is in two turns after another has overtaken it',
    fault: PROGRAM,
    file: 'workflows/rollout/program-reports.ts',
    before: 'if (report === undefined) break;',
    after: 'if (report === undefined) continue;',
    tests: [{ file: EXTERNAL_TEST, test: 'turns that overtake each other are in order', hangs: true }],
  },
  {
    name: 'a policy of text alone is sent images',
    fault: IMAGES,
    file: 'activities/generate/sample-chat.ts',
    before: "if (!('endpoint' in policy) || policy.endpoint.images !== true) return new Set();",
    after: '',
    tests: [{ file: IMAGES_TEST, test: 'is text for any other policy, and its bytes are nowhere in the request' }],
  },
  {
    name: 'objects of tools outlive their rollout',
    fault: IMAGES,
    file: 'activities/agent-run/rollout-objects.ts',
    before: 'keys.object(attempt, sha256)',
    after: '`kept:${sha256}`',
    tests: [{ file: IMAGES_TEST, test: 'is pruned with its rollout' }],
  },
  {
    name: 'a file is taken for an image of no size',
    fault: IMAGES,
    file: 'agents/tools/image-header.ts',
    before: ' || size.width === 0 || size.height === 0) return undefined;',
    after: ') return undefined;',
    tests: [{ file: HEADER_TEST, test: 'a png of no width is none' }],
  },
];
