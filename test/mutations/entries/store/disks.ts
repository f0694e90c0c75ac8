/** Disks that are full or read-only, and stores that are damaged. */

import type { Mutation } from '../../mutation.ts';

const FULL = 'the disk is full or read-only, or another program locks the store';
const DAMAGED = "the store's file is damaged, or its last record is torn";
const RECORD =
  'a record, an event or an object in the store is not what was written: a digit changed, two rows changed places, a turn is missing';
const DAMAGED_ROWS_TEST = 'test/store/damaged-rows.test.ts';
const DAMAGED_STORE_TEST = 'test/activities/damaged-store.test.ts';
const DOCTOR_STORE_TEST = 'test/cli/doctor/store.test.ts';
const HELD_WORK_TEST = 'test/workflows/failures/held-work.test.ts';
const ASKED =
  "a disk of the store, of Temporal's database or of the runs is full, read-only or without inodes, and a command reports it";
const DISK_ROOM_TEST = 'test/stack/disk-room.test.ts';
const DISK_ERRORS_TEST = 'test/store/disk-errors.test.ts';
const FULL_DISK_TEST = 'test/activities/full-disk.test.ts';
const LINE_TEST = 'test/store/write-queue.test.ts';
const HEARTBEAT_TEST = 'test/activities/heartbeat.test.ts';
const FULL_STACK_TEST = 'test/stack/full-disk.test.ts';

export const disks: readonly Mutation[] = [
  {
    name: 'a turn is given up before the store gives up its disk',
    fault: FULL,
    file: 'workflows/activity-stubs.ts',
    before: 'const BESIDE_CALLS_SECONDS = 600;',
    after: 'const BESIDE_CALLS_SECONDS = 120;',
    tests: [
      {
        file: 'test/workflows/failures/store-patience.test.ts',
        test: 'an activity is given up later than the store gives up its disk',
      },
    ],
  },
  {
    name: 'a full disk is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (code === SQLITE.FULL) return new StoreFull(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'fails a write with its class and remedy' }],
  },
  {
    name: 'a full file system is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: "if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return new StoreFull(at, { cause: error });\n",
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written and no temporary file' }],
  },
  {
    name: 'a state of the stack that cannot be written ends its supervisor',
    fault: FULL,
    file: 'stack/supervisor.ts',
    before: 'if (!isAgain) this.#say(',
    after: 'if (!isAgain) throw error;\n      this.#say(',
    tests: [
      {
        file: FULL_STACK_TEST,
        test: 'the supervisor of a full disk goes on, and when there is room what died stands again',
      },
    ],
  },
  {
    name: 'a log that cannot be written ends a worker',
    fault: FULL,
    file: 'workers/logs/process-log.ts',
    before: "process.stderr]) stream.on('error', () => undefined);",
    after: "process.stderr]) stream.on('drain', () => undefined);",
    tests: [{ file: FULL_STACK_TEST, test: 'a worker whose log has no room goes on, and its lines are there later' }],
  },
  {
    name: 'a line of the log that cannot be written ends a worker',
    fault: FULL,
    file: 'workers/logs/process-log.ts',
    before: "  stream.on('error', () => undefined);\n  return",
    after: '  return',
    tests: [{ file: FULL_STACK_TEST, test: 'a worker whose log has no room goes on, and its lines are there later' }],
  },
  {
    name: 'nobody waits for a disk',
    fault: FULL,
    file: 'store/disk-patience.ts',
    before: 'if (patience === undefined || !isTransient(error) || Date.now() + pause > until) throw error;',
    after: 'throw error;',
    tests: [
      { file: DISK_ERRORS_TEST, test: 'delays a worker and fails nothing' },
      { file: FULL_DISK_TEST, test: 'delays an update before it trains' },
    ],
  },
  {
    name: 'a disk is waited for without a limit',
    fault: FULL,
    file: 'store/disk-patience.ts',
    before: '|| Date.now() + pause > until) throw error;',
    after: '|| until < 0) throw error;',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is waited for no longer than the patience allows', hangs: true }],
  },
  {
    name: 'what could not be written stays aside',
    fault: FULL,
    file: 'store/atomic-write.ts',
    before: 'await rm(aside, { force: true }).catch(() => undefined);',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written and no temporary file' }],
  },
  {
    name: 'files are written in place',
    fault: FULL,
    file: 'store/atomic-write.ts',
    before: 'const aside = `${path}.partial-${randomUUID()}`;',
    after: 'const aside = path;',
    tests: [{ file: DISK_ERRORS_TEST, test: 'leaves no half-written and no temporary file' }],
  },
  {
    name: 'what killed writers left aside stays',
    fault: FULL,
    file: 'store/atomic-write.ts',
    before:
      'if (ASIDE.test(name) && now - (await modified(path)) >= idleMs) await rm(path, { recursive: true, force: true });',
    after: 'if (ASIDE.test(name) && idleMs < 0) await rm(path, { recursive: true, force: true });',
    tests: [{ file: DISK_ERRORS_TEST, test: 'are removed when nobody writes to them; everything else stays' }],
  },
  {
    name: 'a disk that can only be read is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (!isWritable(dir)) return new StoreReadOnly(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is reported when the store is opened and when a file is written' }],
  },
  {
    name: 'a file system that can only be read is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: "if (error.code === 'EROFS') return new StoreReadOnly(at, { cause: error });\n",
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is reported when the store is opened and when a file is written' }],
  },
  {
    name: 'a store that another program holds locked is not told by its class',
    fault: FULL,
    file: 'store/disk-errors.ts',
    before: 'if (code === SQLITE.BUSY || code === SQLITE.LOCKED) return new StoreBusy(dir, { cause: error });\n',
    after: '',
    tests: [{ file: DISK_ERRORS_TEST, test: 'is reported, waited for without blocking the event loop' }],
  },
  {
    name: 'each writer at a locked store tries by itself',
    fault: FULL,
    file: 'store/named-store.ts',
    before: 'line !== undefined && WRITES.has(property) ? () => line.enter(work) : work',
    after: 'work',
    tests: [
      {
        file: LINE_TEST,
        test: 'a worker with many writers at a locked store continues to send heartbeats and to read',
      },
    ],
  },
  {
    name: 'the whole process waits as long for a lock as a writer does',
    fault: FULL,
    file: 'store/sqlite-store.ts',
    before: 'const PATIENT_BUSY_TIMEOUT_MS = 200;',
    after: 'const PATIENT_BUSY_TIMEOUT_MS = 4_500;',
    tests: [
      {
        file: LINE_TEST,
        test: 'a worker with many writers at a locked store continues to send heartbeats and to read',
      },
    ],
  },
  {
    name: 'writers try again what the first of them was refused',
    fault: FULL,
    file: 'store/write-queue.ts',
    before: 'error instanceof StoreBusy ? this.#calls.length : 1',
    after: '1',
    tests: [{ file: LINE_TEST, test: 'if the first fails at the lock, those behind it fail without a try' }],
  },
  {
    name: 'writers that waited come one after the other, and nothing in between',
    fault: FULL,
    file: 'store/write-queue.ts',
    before: 'if (this.#calls.length > 0) await otherWork();\n',
    after: '',
    tests: [{ file: LINE_TEST, test: 'run in the order in which they came, with other work between two of them' }],
  },
  {
    name: 'an update does not ask for room before it trains',
    fault: FULL,
    file: 'activities/update/check-disk-space.ts',
    before: 'if (bavail * bsize < needed) throw new StoreFull(parent);\n',
    after: '',
    tests: [{ file: FULL_DISK_TEST, test: 'delays an update before it trains' }],
  },
  {
    name: 'heartbeats do not say that the disk holds work up',
    fault: FULL,
    file: 'activities/heartbeat.ts',
    before: 'context.heartbeat(pausedBy() ?? detail)',
    after: 'context.heartbeat(detail)',
    tests: [{ file: HEARTBEAT_TEST, test: 'reports why it waits for the disk' }],
  },
  {
    name: 'files of a run are added to, not written anew',
    fault: FULL,
    file: 'store/atomic-write.ts',
    before: 'await rename(aside, path);',
    after: 'if (!(await stat(path).catch(() => undefined))) await rename(aside, path);',
    tests: [{ file: FULL_DISK_TEST, test: 'are whole again after the next step' }],
  },
  {
    name: 'damage is not told as such',
    fault: DAMAGED,
    file: 'store/disk-errors.ts',
    before:
      'if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB) return new StoreCorrupt(dir, error.message, { cause: error });\n',
    after: '',
    tests: [
      { file: DISK_ERRORS_TEST, test: 'in the middle of the file is reported and not classified as something else' },
    ],
  },
  {
    name: 'a row is not held to its checksum',
    fault: RECORD,
    file: 'store/checked-rows.ts',
    before: 'return row.sum === sumOf(row) ? undefined',
    after: 'return row.sum === sumOf(row) || row.sum > 0 ? undefined',
    tests: [
      { file: DAMAGED_ROWS_TEST, test: 'a changed digit of a value is found by every read of it' },
      { file: DAMAGED_ROWS_TEST, test: 'a changed digit of an event is found' },
      { file: DAMAGED_STORE_TEST, test: 'an update reads no turn with a changed digit' },
      { file: DAMAGED_STORE_TEST, test: 'an update reads no reward with a changed digit' },
      { file: DAMAGED_STORE_TEST, test: 'a report uses no record and no event with a changed digit' },
      { file: DOCTOR_STORE_TEST, test: 'names each damaged record' },
    ],
  },
  {
    name: 'a checksum does not cover the key',
    fault: RECORD,
    file: 'store/checked-rows.ts',
    before: 'crc32(`${key}\\0`)',
    after: 'crc32(`${key.length}\\0`)',
    tests: [{ file: DAMAGED_ROWS_TEST, test: 'two records with exchanged keys are found' }],
  },
  {
    name: 'an object with other bytes is taken for itself',
    fault: RECORD,
    file: 'store/checked-rows.ts',
    before: 'row.bytes instanceof Uint8Array && refOf(row.bytes) === row.ref',
    after: 'row.bytes instanceof Uint8Array',
    tests: [
      { file: DAMAGED_ROWS_TEST, test: 'a changed digit of an object is found' },
      { file: DAMAGED_STORE_TEST, test: 'a grading takes neither a verdict nor an artifact' },
    ],
  },
  {
    name: 'a turn that is missing makes a shorter rollout',
    fault: RECORD,
    file: 'store/read-records.ts',
    before: 'if (rows[i]?.key !== key) throw new StoreCorrupt(',
    after: 'if (i < 0) throw new StoreCorrupt(',
    tests: [{ file: DAMAGED_STORE_TEST, test: 'a turn that is missing' }],
  },
  {
    name: 'an outcome that is missing beside its verdict masks its rollout',
    fault: RECORD,
    file: 'activities/update/training-data.ts',
    before: "if (verdicts.length === 0) return 'no-outcome';",
    after: "if (verdicts.length >= 0) return 'no-outcome';",
    tests: [{ file: DAMAGED_STORE_TEST, test: 'an outcome that is missing beside its verdict' }],
  },
  {
    name: 'damage is tried again',
    fault: RECORD,
    file: 'protocol/failure-policy.ts',
    before: "errors: ['StoreCorrupt'],\n    retried: [],",
    after: "errors: ['StoreCorrupt'],\n    retried: ['gpu'],",
    tests: [{ file: DAMAGED_STORE_TEST, test: 'an update reads no turn with a changed digit' }],
  },
  {
    name: 'a damaged record that an update needs ends the run',
    fault: RECORD,
    file: 'protocol/failure-policy.ts',
    before: "errors: ['StoreCorrupt'],\n    retried: [],\n    recovery: 'hold',",
    after: "errors: ['StoreCorrupt'],\n    retried: [],\n    recovery: 'mask',",
    tests: [
      { file: HELD_WORK_TEST, test: 'update that needs a damaged record pauses its run at once' },
      {
        file: 'test/workflows/failures/held-rollouts.test.ts',
        test: 'a run (sync) whose agentRun in step-2/ cannot continue pauses',
      },
    ],
  },
  {
    name: 'a store without checksums is read as if it had them',
    fault: RECORD,
    file: 'store/store-format.ts',
    before: 'if (found !== FORMAT) throw',
    after: 'if (found > FORMAT) throw',
    tests: [{ file: DAMAGED_ROWS_TEST, test: 'a store with another format is refused' }],
  },
  {
    name: 'damage that doctor finds does not fail it',
    fault: RECORD,
    file: 'cli/verbs/stack/doctor.ts',
    before: 'exitCode: verdict.ok ? 0 : 1',
    after: 'exitCode: 0',
    tests: [{ file: DOCTOR_STORE_TEST, test: 'names each damaged record' }],
  },
  {
    name: 'a damaged record of a step hides the checkpoints of all',
    fault: RECORD,
    file: 'store/verify-store.ts',
    before: 'else damaged += 1;',
    after: 'else { whole.length = 0; break; }',
    tests: [{ file: DOCTOR_STORE_TEST, test: 'verifies the checkpoints of whole records beside a damaged one' }],
  },
  {
    name: 'doctor looks at no checkpoint',
    fault: RECORD,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: 'for await (const _piece of (await openVerifiedPolicy(dir)).weights);\n',
    after: '',
    tests: [{ file: DOCTOR_STORE_TEST, test: 'names a checkpoint whose files are not those' }],
  },
  {
    name: 'a disk without room is no trouble',
    fault: ASKED,
    file: 'stack/disk-room.ts',
    before: 'if (free < NEEDED_BYTES',
    after: 'if (free < 0',
    tests: [
      { file: DISK_ROOM_TEST, test: 'without room is told once' },
      { file: DISK_ROOM_TEST, test: 'ps says so first' },
      { file: DISK_ROOM_TEST, test: 'show says so first' },
      { file: DISK_ROOM_TEST, test: 'doctor says so first' },
      { file: DISK_ROOM_TEST, test: 'who follows a run is told so' },
    ],
  },
  {
    name: 'a disk without inodes is no trouble',
    fault: ASKED,
    file: 'stack/disk-room.ts',
    before: 'if (files === 0 || ffree >= NEEDED_FILES) return undefined;',
    after: 'if (files >= 0 || ffree >= NEEDED_FILES) return undefined;',
    tests: [{ file: DISK_ROOM_TEST, test: 'without inodes is told as that' }],
  },
  {
    name: 'a disk that can only be read is no trouble',
    fault: ASKED,
    file: 'stack/disk-room.ts',
    before: '!isWritable(dir)',
    after: "dir === ''",
    tests: [{ file: DISK_ROOM_TEST, test: 'that can only be read is told as that' }],
  },
  {
    name: 'a stack is brought up on a full disk',
    fault: ASKED,
    file: 'stack/ensure-stack.ts',
    before: '  refuseUnusableDisks(stackPlaces(paths.home, env));\n',
    after: '',
    tests: [{ file: DISK_ROOM_TEST, test: 'train, eval and up say so and start nothing' }],
  },
  {
    name: 'a server that answers nobody is called ready',
    fault: ASKED,
    file: 'cli/verbs/stack/ps.ts',
    before: 'await withServerAsked(listProcesses(stackHome(env, cwd)))',
    after: 'listProcesses(stackHome(env, cwd))',
    tests: [{ file: DISK_ROOM_TEST, test: 'ps says so first, and calls no server ready' }],
  },
];
