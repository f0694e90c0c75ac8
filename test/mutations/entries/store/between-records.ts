/** What goes on from the record after a crash. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'a process dies between two records';
const AGAIN =
  'a run is cancelled, or fails, with rollouts under way, and is begun again (`train(config, { again: true })`, or any Temporal client)';
const AGAIN_TEST = 'test/activities/orchestrator/run-begun-again.test.ts';
const EFFECTS_TEST = 'test/activities/agent-run/tool-effects.test.ts';
const MCP_TEST = 'test/activities/agent-run/mcp.test.ts';
const COLLECT_TEST = 'test/activities/agent-run/collect.test.ts';
const AGENT_RUN_TEST = 'test/activities/agent-run/agent-run.test.ts';
const BUDGET_TEST = 'test/activities/agent-run/message-budget.test.ts';
const REWARD_TEST = 'test/activities/reward/reward.test.ts';
const UPDATE_TEST = 'test/activities/update/update.test.ts';

export const betweenRecords: readonly Mutation[] = [
  {
    name: 'answers are recorded only with their whole turn',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'return store.putOnce<AnswerRecord>(key, { ...base, ...observation, ...ran });',
    after: 'return { ...base, ...observation, ...ran };',
    tests: [{ file: AGENT_RUN_TEST, test: 'records every answer before the next call runs' }],
  },
  {
    name: 'a recorded answer is asked of the tool again',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'const known = await store.get<AnswerRecord>(key);',
    after: 'const known = undefined as AnswerRecord | undefined;',
    tests: [
      {
        file: AGENT_RUN_TEST,
        test: 'continues after a crash at the call that has no answer, under the same key, and counts the repeat',
      },
    ],
  },
  {
    name: 'an answer on record is taken for whatever call has its place',
    fault:
      'an answer on record is that of another call (a part of the store was lost, two stacks wrote under one name)',
    file: 'activities/agent-run/tool-calls.ts',
    before: '  if (isOther) throw new AnswerMismatch(key, known.name, call.name);\n',
    after: '  if (isOther && key === call.name) throw new AnswerMismatch(key, known.name, call.name);\n',
    tests: [{ file: AGENT_RUN_TEST, test: 'does not use a recorded answer for another command' }],
  },
  {
    name: "a message's calls are run for as long as there are any",
    fault: 'a message makes more calls, or longer ones, than its activity has time for',
    file: 'activities/agent-run/tool-calls.ts',
    before: 'const refused = budget.refused(index);',
    after: 'const refused = budget.refused(Number.NaN);',
    tests: [{ file: BUDGET_TEST, test: 'are limited in number, and the others are refused' }],
  },
  {
    name: 'what calls took before a worker was killed is forgotten',
    fault: 'a message makes more calls, or longer ones, than its activity has time for',
    file: 'activities/agent-run/tool-calls.ts',
    before: '...observation, ...ran });',
    after: '...observation, ...ran, ms: 0 });',
    tests: [{ file: BUDGET_TEST, test: 'are counted from the records if a worker is killed between two of them' }],
  },
  {
    name: "a turn's recorded answers are not looked for",
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before: '(await store.get<ActRecord>(keys.act(input, turn)))',
    after: '(undefined as ActRecord | undefined)',
    tests: [{ file: AGENT_RUN_TEST, test: 'returns the record without touching the sandbox' }],
  },
  {
    name: 'executions are not journalled before they begin',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (began || ((await store.begin(execution)) > unsent + 1 && outside))',
    after: 'if (began)',
    tests: [{ file: AGENT_RUN_TEST, test: 'under the same key, and counts the repeat' }],
  },
  {
    name: 'a call with effects outside is made again if its answer is not on record',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (began || ((await store.begin(execution)) > unsent + 1 && outside))',
    after: 'if ((await store.begin(execution)) < 1)',
    tests: [{ file: EFFECTS_TEST, test: 'that began and has no record is answered as unknown' }],
  },
  {
    name: 'a request to an MCP server is not named by its call',
    fault: FAULT,
    file: 'agents/mcp/transport.ts',
    before: 'return `${this.#id}#${what}-${this.#calls}`;',
    after: 'return `${this.#id}#${what}-${this.#calls}-${process.hrtime.bigint()}`;',
    tests: [{ file: MCP_TEST, test: 'a worker that is killed after a call leaves it to the next one' }],
  },
  {
    name: 'a sandbox is released before its diff is on record',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before:
      'const outcome = known ?? (await withSandboxes(deps, input, (all) => takenOut(input, all, signal, deps)));\n        await release(deps, input);',
    after:
      'await release(deps, input);\n        const outcome = known ?? (await withSandboxes(deps, input, (all) => takenOut(input, all, signal, deps)));',
    tests: [
      { file: COLLECT_TEST, test: 'after a crash between recording and releasing returns the record and releases' },
    ],
  },
  {
    name: 'a diff on record is taken again',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before: 'const known = await store.get<CollectOutcome>(keys.collect(input));',
    after: 'const known = undefined as CollectOutcome | undefined;',
    tests: [
      { file: COLLECT_TEST, test: 'after a crash between recording and releasing returns the record and releases' },
    ],
  },
  {
    name: 'a diff that was taken out with the last turn is taken again',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before: 'const isOver = (await store.get<CollectOutcome>(keys.collect(input))) !== undefined;',
    after: 'const isOver = false;',
    tests: [{ file: AGENT_RUN_TEST, test: 'whose sandbox is lost after it was collected is still recorded' }],
  },
  {
    name: 'a last turn on record keeps its sandbox',
    fault: FAULT,
    file: 'activities/agent-run/agent-run.ts',
    before: 'if (!collected) return outcome;\n  await release(deps, input);',
    after: 'if (!collected) return outcome;\n  if (!isDone) await release(deps, input);',
    tests: [{ file: AGENT_RUN_TEST, test: 'killed at releaseLease' }],
  },
  {
    name: 'an outcome is written only by who graded',
    fault: FAULT,
    file: 'activities/reward/reward.ts',
    before: 'const verdict = known ?? (await grade());',
    after: 'if (known) return known;\n  const verdict = await grade();',
    tests: [{ file: REWARD_TEST, test: 'after a crash behind the verdict writes the outcome without grading again' }],
  },
  {
    name: 'a verdict on record is not looked for',
    fault: FAULT,
    file: 'activities/reward/reward.ts',
    before: 'known ?? (await grade())',
    after: 'await grade()',
    tests: [{ file: REWARD_TEST, test: 'after a crash behind the verdict writes the outcome without grading again' }],
  },
  {
    name: 'the ends of rollouts are told only by who trained',
    fault: FAULT,
    file: 'activities/update/update.ts',
    before: 'let outcome = await store.get<UpdateEntry>(key);\n',
    after:
      'let outcome = await store.get<UpdateEntry>(key);\n  if (outcome) return { policy: outcome.policy, sha256: outcome.sha256, record: outcome.record };\n',
    tests: [
      { file: UPDATE_TEST, test: 'that was killed between its record and its events appends them when it is retried' },
    ],
  },
  {
    name: 'an update is reported without the record of an earlier one',
    fault: FAULT,
    file: 'activities/update/update.ts',
    before: 'let outcome = await store.get<UpdateEntry>(key);\n',
    after: 'let outcome = undefined as UpdateEntry | undefined;\n',
    tests: [{ file: UPDATE_TEST, test: 'that is repeated returns the record, trains nothing and appends nothing' }],
  },
  {
    name: 'a rollout may end in two ways',
    fault: FAULT,
    file: 'reports/rollout-ends.ts',
    before: 'const kept = await store.putOnce(keys.end(end.rollout), end);',
    after: 'const kept = end;',
    tests: [{ file: UPDATE_TEST, test: 'also where an outcome appears between an update and its retry' }],
  },
  {
    name: 'a run that is begun again keeps the end that it had',
    fault: AGAIN,
    file: 'reports/run-end.ts',
    before: '  await store.putOnce<RunAgain>(keys.runAgain(run, known.ends.length), again);\n',
    after: '',
    tests: [
      {
        file: AGAIN_TEST,
        test: 'that had been cancelled is reported as running, and its unfinished rollouts are trained on',
      },
    ],
  },
  {
    name: 'an execution takes back its own end when it opens its run late',
    fault: AGAIN,
    file: 'reports/run-end.ts',
    before: "if (!end || end.status === 'completed' || end.execution === execution) return false;",
    after: "if (!end || end.status === 'completed') return false;",
    tests: [{ file: AGAIN_TEST, test: 'is neither started again nor ended by an activity that is retried or late' }],
  },
  {
    name: 'a run does not say by which execution it opens',
    fault: AGAIN,
    file: 'workflows/train.ts',
    before: 'orchestrator.openRun(given, run, workflowInfo().runId)',
    after: 'orchestrator.openRun(given, run)',
    tests: [
      {
        file: 'test/workflows/training/restart.test.ts',
        test: 'a run that is started again after it was cancelled opens and ends as another execution',
      },
    ],
  },
];
