/** Servers of policies that are down. */

import type { Mutation } from '../mutation.ts';

const FAULT = 'an endpoint is down, or accepts requests and never answers';
const DISK = 'the disk is full or read-only, or another program locks the store';
const ENDPOINT_DOWN_TEST = 'test/workflows/failures/endpoint-down.test.ts';
const BROKEN = 'a server of a policy ends an answer with an error, with an unknown word, or without one';
const CHAT_TEST = 'test/endpoints/chat.test.ts';
const TRIES_TEST = 'test/activities/tries.test.ts';

export const endpoints: readonly Mutation[] = [
  {
    name: 'an answer that ends with an unknown word is whole',
    fault: BROKEN,
    file: 'endpoints/finish-words.ts',
    before: 'if (finish !== undefined) return finish;',
    after: "return finish ?? 'stop';",
    tests: [{ file: CHAT_TEST, test: 'error is no end: the answer is a failure of the server' }],
  },
  {
    name: 'patience that ends in the middle of a try is told as the deadline of the rollout',
    fault: FAULT,
    file: 'activities/generate/endpoint-patience.ts',
    before:
      "new EndpointUnavailable(last ? `the last failure: ${last.message}` : 'the last call had no answer yet', undefined);",
    after: "Object.assign(new EndpointUnavailable('over', undefined), { name: 'DeadlinePassed' });",
    tests: [{ file: ENDPOINT_DOWN_TEST, test: 'a server that takes a request and never answers is down as well' }],
  },
  {
    name: 'an endpoint that never answers is asked for as long as the rollout has',
    fault: FAULT,
    file: 'activities/generate/endpoint-patience.ts',
    before: 'return within({ ms, clock, over }, signal, (own) =>',
    after: 'return within({ ms: ms * 1e6, clock, over }, signal, (own) =>',
    tests: [{ file: TRIES_TEST, test: 'a call that hangs ends with the patience, and is the last' }],
  },
  {
    name: 'a patience that is over is not the last failure',
    fault: FAULT,
    file: 'activities/own-patience.ts',
    before: '+ LEAST_MS >= ms;',
    after: '+ LEAST_MS >= ms * 1e6;',
    tests: [
      { file: TRIES_TEST, test: 'patience counts attempts that found the server down' },
      { file: TRIES_TEST, test: 'a call that hangs ends with the patience, and is the last' },
    ],
  },
  {
    name: 'other failures of an endpoint’s turn have its patience too',
    fault: FAULT,
    file: 'activities/own-patience.ts',
    before: "return end === 'failed' && classOfError(error) === failure;",
    after: "return end === 'failed' && classOfError(error) !== 'store-unavailable' && failure !== 'internal';",
    tests: [{ file: TRIES_TEST, test: 'failures with a patience do not count toward other failures' }],
  },
  {
    name: 'a full disk between two tries spends the patience with an endpoint',
    fault: DISK,
    file: 'activities/own-patience.ts',
    before: 'const wasNext = last.key === keys.oneTry({ ...info, attempt: info.attempt - 1 });',
    after: 'const wasNext = last.key !== keys.oneTry(info);',
    tests: [
      { file: TRIES_TEST, test: 'patience counts attempts that found the server down' },
      { file: TRIES_TEST, test: 'an attempt has the remaining patience' },
    ],
  },
  {
    name: 'the server ends a turn of an endpoint when its patience is over',
    fault: DISK,
    file: 'workflows/activity-stubs.ts',
    before: "  ...onEndpoints,\n  retry: { ...retry(RETRIES.gpu), maximumInterval: '30s' as const },",
    after:
      "  ...onEndpoints,\n  scheduleToCloseTimeout: 2000,\n  retry: { ...retry(RETRIES.gpu), maximumInterval: '30s' as const },",
    tests: [
      {
        file: ENDPOINT_DOWN_TEST,
        test: 'a full disk in the middle of an attempt, and between two, spends no patience',
      },
    ],
  },
  {
    name: 'a wait for a disk is a try’s own time',
    fault: DISK,
    file: 'activities/own-time.ts',
    before: 'return Date.now() - this.#begun - this.waitedMs;',
    after: 'return Date.now() - this.#begun;',
    tests: [
      { file: 'test/activities/own-time.test.ts', test: 'a wait for a disk within an attempt takes none of its time' },
      {
        file: ENDPOINT_DOWN_TEST,
        test: 'a full disk in the middle of an attempt, and between two, spends no patience',
      },
      {
        file: 'test/workflows/rollout/deadline.test.ts',
        test: 'to a wait for a disk within an attempt is not the rollout',
      },
    ],
  },
];
