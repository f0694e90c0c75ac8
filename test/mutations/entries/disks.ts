/** Disks that are full or read-only, and stores that are damaged. */

import type { Mutation } from '../mutation.ts';

const FULL = 'the disk is full or can only be read, or another program holds the store locked';
const DAMAGED = "the store's file is damaged, or its last record is torn";
const DISK_ERRORS_TEST = 'test/store/disk-errors.test.ts';
const FULL_DISK_TEST = 'test/activities/full-disk.test.ts';
const HEARTBEAT_TEST = 'test/activities/heartbeat.test.ts';
const FULL_STACK_TEST = 'test/workers/stack/full-disk.test.ts';

export const disks: readonly Mutation[] = [
  {
    name: 'a turn is given up before the store gives up its disk',
    fault: FULL,
    file: 'workflows/activities.ts',
    before: 'const BESIDE_CALLS_SECONDS = 600;',
    after: 'const BESIDE_CALLS_SECONDS = 120;',
    tests: [{ file: 'test/workflows/failures/store-patience.test.ts', test: 'an activity is given up later than the store gives up its disk' }],
  },
  {
    name: 'a full disk is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (code === SQLITE.FULL) return new StoreFull(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'fails a write by its class and its remedy' }],
  },
  {
    name: 'a full file system is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: "if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return new StoreFull(at, { cause: error });\n",
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written file and nothing aside' }],
  },
  {
    name: 'a state of the stack that cannot be written ends its supervisor',
    fault: FULL,
    file: 'workers/stack/supervisor.ts',
    before: 'if (!isAgain) this.#say(',
    after: 'if (!isAgain) throw error;\n      this.#say(',
    tests: [{ file: FULL_STACK_TEST, test: 'the supervisor of a full disk goes on, and when there is room what died stands again' }],
  },
  {
    name: 'a log that cannot be written ends a worker',
    fault: FULL,
    file: 'workers/full-log.ts',
    before: "stream.on('error', () => undefined);",
    after: "stream.on('drain', () => undefined);",
    tests: [{ file: FULL_STACK_TEST, test: 'a worker whose log has no room goes on, and its later lines are there' }],
  },
  {
    name: 'nobody waits for a disk',
    fault: FULL,
    file: 'store/patience.ts',
    before: 'if (patience === undefined || !passes(error) || Date.now() + pause > until) throw error;',
    after: 'throw error;',
    tests: [
      { file: DISK_ERRORS_TEST, test: 'holds a worker up and fails nothing' },
      { file: FULL_DISK_TEST, test: 'holds an update up before it trains' },
    ],
  },
  {
    name: 'a disk is waited for without a limit',
    fault: FULL,
    file: 'store/patience.ts',
    before: '|| Date.now() + pause > until) throw error;',
    after: '|| until < 0) throw error;',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is waited for no longer than patience lasts', hangs: true }],
  },
  {
    name: 'what could not be written stays aside',
    fault: FULL,
    file: 'activities/write-aside.ts',
    before: 'await rm(aside, { force: true }).catch(() => undefined);',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written file and nothing aside' }],
  },
  {
    name: 'files are written in place',
    fault: FULL,
    file: 'activities/write-aside.ts',
    before: 'const aside = `${path}.partial-${randomUUID()}`;',
    after: 'const aside = path;',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written file and nothing aside' }],
  },
  {
    name: 'what killed writers left aside stays',
    fault: FULL,
    file: 'activities/write-aside.ts',
    before: 'if (ASIDE.test(name) && now - (await modified(path)) >= idleMs) await rm(path, { recursive: true, force: true });',
    after: 'if (ASIDE.test(name) && idleMs < 0) await rm(path, { recursive: true, force: true });',
    tests: [{ file: DISK_ERRORS_TEST, test: 'goes, once nobody writes to it; everything else stays' }],
  },
  {
    name: 'a disk that can only be read is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (!isWritable(dir)) return new StoreReadOnly(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is named when the store is opened and when a file is written' }],
  },
  {
    name: 'a file system that can only be read is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: "if (error.code === 'EROFS') return new StoreReadOnly(at, { cause: error });\n",
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is named when the store is opened and when a file is written' }],
  },
  {
    name: 'a store that another program holds locked is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (code === SQLITE.BUSY || code === SQLITE.LOCKED) return new StoreBusy(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is named, waited for with the event loop free in between' }],
  },
  {
    name: 'an update does not ask for room before it trains',
    fault: FULL,
    file: 'activities/update/room.ts',
    before: 'if (bavail * bsize < needed) throw new StoreFull(parent);\n',
    after: '',
    tests: [{ file: FULL_DISK_TEST, test: 'holds an update up before it trains' }],
  },
  {
    name: 'heartbeats do not say that the disk holds work up',
    fault: FULL,
    file: 'activities/heartbeat.ts',
    before: 'context.heartbeat(pausedBy() ?? detail)',
    after: 'context.heartbeat(detail)',
    tests: [{ file: HEARTBEAT_TEST, test: 'says why the disk holds it up' }],
  },
  {
    name: 'files of a run are added to, not written anew',
    fault: FULL,
    file: 'activities/write-aside.ts',
    before: 'await rename(aside, path);',
    after: 'if (!(await stat(path).catch(() => undefined))) await rename(aside, path);',
    tests: [{ file: FULL_DISK_TEST, test: 'are whole again after the next step' }],
  },
  {
    name: 'damage is not told as such',
    fault: DAMAGED,
    file: 'store/disk-errors.ts',
    before: 'if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB) return new StoreCorrupt(dir, error.message, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'in the middle of the file is named and is not read as something else' }],
  },
  {
    name: 'a record that is not JSON is told as a bug',
    fault: DAMAGED,
    file: 'store/sqlite-store.ts',
    before: 'throw new StoreCorrupt(this.#dir, `the record ${key} is not JSON`, { cause: error });',
    after: 'throw error;',
    tests: [{ file: DISK_ERRORS_TEST, test: 'of one record, or of an object, is named' }],
  },
  {
    name: 'an object with other bytes is taken for itself',
    fault: DAMAGED,
    file: 'store/sqlite-store.ts',
    before: 'if (actual !== ref) throw new StoreCorrupt(',
    after: "if (actual === '') throw new StoreCorrupt(",
    tests: [{ file: DISK_ERRORS_TEST, test: 'of one record, or of an object, is named' }],
  },
];
