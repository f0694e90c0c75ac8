/** Servers whose weights another trainer makes: pushes that fail, meet each other or are cut off, and answers. */

import type { Mutation } from '../mutation.ts';

const PUSH = 'a push of weights to vLLM or SGLang fails, is cut off, or meets another one';
const WEIGHTS = 'endpoints/samplers/vllm-weights.ts';
const CHECKPOINT = 'endpoints/samplers/checkpoint.ts';
const PUSHES_TEST = 'test/endpoints/samplers/pushes.test.ts';
const BACKEND_TEST = 'test/endpoints/samplers/backend.test.ts';
const LEAVES = 'a push that fails leaves its server answering';

export const samplers: readonly Mutation[] = [
  {
    name: 'a server without weights samples after a push that failed',
    fault: PUSH,
    file: WEIGHTS,
    before: '!hasReloaded || (await renewing(server, mark, own, restored(server, own)))',
    after: 'true',
    tests: [{ file: PUSHES_TEST, test: LEAVES }],
  },
  {
    name: 'a server that gets no weights back is resumed',
    fault: PUSH,
    file: WEIGHTS,
    before: "  if (isWhole) await server.post('resume', {}, last)",
    after: "  await server.post('resume', {}, last)",
    tests: [{ file: PUSHES_TEST, test: 'a server that gets no weights back stays paused' }],
  },
  {
    name: 'weights of no known version keep the label of their push',
    fault: PUSH,
    file: WEIGHTS,
    before: '  await rename(server, UNKNOWN, last).catch(() => undefined);\n',
    after: '',
    tests: [{ file: PUSHES_TEST, test: LEAVES }],
  },
  {
    name: 'an adapter is sampled on weights of no known version',
    fault: PUSH,
    file: 'endpoints/samplers/pushed-weights.ts',
    before: 'versionIn(label) === undefined && label !== UNKNOWN',
    after: 'versionIn(label) === undefined',
    tests: [{ file: PUSHES_TEST, test: LEAVES }],
  },
  {
    name: 'a request over a closed connection is given up',
    fault: PUSH,
    file: 'endpoints/samplers/sampler-server.ts',
    before: '        if (wasClosed(error)) return exchangeBytes({ ...request, overNew: true }, either);\n',
    after: '',
    tests: [{ file: PUSHES_TEST, test: 'a server that closes each kept connection' }],
  },
  {
    name: 'weights in parts are pushed before each part is there',
    fault: PUSH,
    file: CHECKPOINT,
    before: '  if (part !== undefined) refuse(`lacks ${part}, which ${index} names`);\n',
    after: '',
    tests: [{ file: PUSHES_TEST, test: 'weights in parts are not pushed before each part is there' }],
  },
  {
    name: 'an answer of other weights is used',
    fault: PUSH,
    file: 'endpoints/samplers/pushed-weights.ts',
    before: 'labels.find((one) => one !== label);',
    after: "labels.find(() => label === '');",
    tests: [{ file: BACKEND_TEST, test: 'an answer that two versions sampled is dropped' }],
  },
  {
    name: 'a server with a later version is set back',
    fault: PUSH,
    file: 'endpoints/samplers/pushed-weights.ts',
    before: 'if (found === undefined || found.version < checkpoint.version) return;',
    after: 'if (found !== null) return;',
    tests: [{ file: BACKEND_TEST, test: 'a server with a later version, or with others of this number' }],
  },
  {
    name: 'a server that starts again is not waited for',
    fault: PUSH,
    file: 'endpoints/samplers/backend.ts',
    before: '    if (await waitInPatience(patience, tries, signal)) continue;\n',
    after: '',
    tests: [{ file: BACKEND_TEST, test: 'servers that are all away are waited for' }],
  },
];
