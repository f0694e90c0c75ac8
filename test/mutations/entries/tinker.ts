/** The Tinker API's futures: what survives, runs once, in order, and keeps out nobody. */

import type { Mutation } from '../mutation.ts';

const KILLED = 'the Tinker server or a GPU worker is killed, frozen or cut off while requests are under way';
const TWICE = 'a request of the Tinker API is sent twice, another one with its number, or a later one before it';
const BUSY = 'a request, or a tenant, of the Tinker API would have a worker for itself';
const GONE = 'a client of the Tinker API is gone without a word, or sends more than there is room for';
const JOURNAL_TEST = 'test/store/tinker/sqlite-journal.test.ts';
const RECOVERY_TEST = 'test/activities/tinker/recovery.test.ts';
const DRAIN_TEST = 'test/activities/tinker/drain.test.ts';
const REPETITIONS_TEST = 'test/servers/tinker/repetitions.test.ts';

export const tinker: readonly Mutation[] = [
  {
    name: 'an operation is acknowledged before it is written',
    fault: KILLED,
    file: 'store/tinker/sqlite-journal.ts',
    before: 'return this.#db.write(() => this.#operations.accept(operation));',
    after:
      'void this.#db.write(() => this.#operations.accept(operation));\n    return Promise.resolve({ requestId: operation.requestId, repeated: false });',
    tests: [{ file: JOURNAL_TEST, test: 'what is acknowledged is in the file' }],
  },
  {
    name: 'a model comes back without its state, and so without its gradient',
    fault: KILLED,
    file: 'activities/tinker/resident-models.ts',
    before: 'if (state !== undefined) await trainer.load(engineId, state.dir, { optimizer: true });',
    after: 'if (state !== undefined) await trainer.load(engineId, state.dir, { optimizer: false });',
    tests: [{ file: RECOVERY_TEST, test: 'is evicted with its gradient, and comes back' }],
  },
  {
    name: 'what finished since the state is not run again',
    fault: KILLED,
    file: 'activities/tinker/resident-models.ts',
    before: '      await this.#replay(resident, signal);\n',
    after: '',
    tests: [{ file: RECOVERY_TEST, test: 'workers that are cut off at any call change no bit of any result' }],
  },
  {
    name: 'a load leaves no state: a rebuild needs the checkpoint again',
    fault: KILLED,
    file: 'activities/tinker/drain-model.ts',
    before: 'return { requestId, result, state: await residents.write(resident, seq) };',
    after: 'return { requestId, result };',
    tests: [{ file: RECOVERY_TEST, test: 'needs no checkpoint that was deleted' }],
  },
  {
    name: 'a worker whose lane another one has taken writes on',
    fault: KILLED,
    file: 'store/tinker/sqlite-journal.ts',
    before: '      this.#holds.check(hold);\n      return work();',
    after: '      return work();',
    tests: [{ file: JOURNAL_TEST, test: 'lets nothing be written under a hold that another one has ended' }],
  },
  {
    name: 'a number with another body is the same future',
    fault: TWICE,
    file: 'store/tinker/sqlite-operations.ts',
    before: "if (known['digest'] === digest) return",
    after: "if (known['digest'] !== null) return",
    tests: [{ file: JOURNAL_TEST, test: 'takes a repetition as the same future, and refuses another body' }],
  },
  {
    name: 'an operation runs although an earlier number has not arrived',
    fault: TWICE,
    file: 'store/tinker/sqlite-operations.ts',
    before: '      if (sampling === 0 && Number(number) !== next) break;\n',
    after: '',
    tests: [{ file: JOURNAL_TEST, test: 'holds those behind one that has not arrived' }],
  },
  {
    name: 'a repeated creation is checked as a new one',
    fault: TWICE,
    file: 'servers/tinker/models.ts',
    before: 'const known = await repeated(call, lane);',
    after: 'const known = undefined as { readonly requestId: string } | undefined;',
    tests: [{ file: REPETITIONS_TEST, test: 'a repeated request is recognised before anything else is checked' }],
  },
  {
    name: 'a repeated copy is checked as a new one',
    fault: TWICE,
    file: 'servers/tinker/checkpoints.ts',
    before: 'if (!isRepeated) {',
    after: '{',
    tests: [{ file: REPETITIONS_TEST, test: 'a repeated copy is the same copy' }],
  },
  {
    name: 'a request that ends each of its workers is run again for ever',
    fault: BUSY,
    file: 'activities/tinker/drain-model.ts',
    before: 'if (lost >= limits.lost) {',
    after: 'if (lost >= limits.lost * 1000) {',
    tests: [{ file: DRAIN_TEST, test: 'a request that ends each of its workers is given up' }],
  },
  {
    name: 'a pass that took too long goes on in the engine',
    fault: BUSY,
    file: 'activities/tinker/drain-model.ts',
    before: 'await applyToModel(resident, operation, undefined, signal)',
    after: 'await applyToModel(resident, operation, undefined)',
    tests: [{ file: DRAIN_TEST, test: 'a pass that takes too long is stopped before it is tried again' }],
  },
  {
    name: "a tenant's long samples keep out the others",
    fault: BUSY,
    file: 'activities/tinker/sample-shares.ts',
    before: 'total + count > this.#most && !isWithinShare)',
    after: 'total + count > this.#most)',
    tests: [{ file: DRAIN_TEST, test: '64 long samples of one tenant keep out nobody', hangs: true }],
  },
  {
    name: 'an execution whose time is over waits for its longest sample',
    fault: BUSY,
    file: 'activities/tinker/drain-sampling.ts',
    before: '    this.#over.abort();\n',
    after: '',
    tests: [{ file: DRAIN_TEST, test: 'does not wait for its longest sample', hangs: true }],
  },
  {
    name: 'a session without heartbeats never ends',
    fault: GONE,
    file: 'store/tinker/sqlite-retention.ts',
    before:
      "    for (const { id } of listens ? silent : []) this.#endSession(String(id), { type: 'interrupted', detail }, now);\n",
    after: '',
    tests: [{ file: JOURNAL_TEST, test: 'a session without a sign of life ends' }],
  },
  {
    name: 'an outage of the server counts as the silence of its clients',
    fault: GONE,
    file: 'store/tinker/sqlite-retention.ts',
    before: 'const listens = now - this.#listensSince >= LISTENS_MS;',
    after: 'const listens = true;',
    tests: [{ file: JOURNAL_TEST, test: 'a session without a sign of life ends' }],
  },
  {
    name: 'decompressed bytes are not counted',
    fault: GONE,
    file: 'servers/tinker/request-body.ts',
    before: '    hold(plain.length);\n',
    after: '',
    tests: [{ file: REPETITIONS_TEST, test: 'what a body is decompressed to counts' }],
  },
];
