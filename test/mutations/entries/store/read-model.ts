/** What lists and reports read instead of all events. */

import type { Mutation } from '../../mutation.ts';

const MODEL =
  'the read model is missing, damaged, behind or followed by several processes, or an earlier copy of the store is restored';
const MODEL_TEST = 'test/reports/read-model/read-model.test.ts';
const STORE_TEST = 'test/store/sqlite-store.test.ts';

export const readModel: readonly Mutation[] = [
  {
    name: 'two processes apply the same changes to the read model',
    fault: MODEL,
    file: 'reports/read-model/read-model.ts',
    before: 'if (cursorOf(db) !== cursor) return false;',
    after: '',
    tests: [{ file: MODEL_TEST, test: 'answers as a scan of the store does' }],
  },
  {
    name: 'a damaged read model fails its reader',
    fault: MODEL,
    file: 'reports/read-model/read-model.ts',
    before: 'if (!(error instanceof ModelBroken) || this.#file === undefined) throw error;',
    after: 'throw error;',
    tests: [{ file: MODEL_TEST, test: 'if its file is no database' }],
  },
  {
    name: 'a restored store is followed from where a later one was',
    fault: MODEL,
    file: 'store/sqlite-changes.ts',
    before: 'if (!isOf(cursor, identity, prepare)) return undefined;',
    after: '',
    tests: [
      { file: STORE_TEST, test: 'changes after a cursor are refused when an earlier copy of the store was restored' },
    ],
  },
];
