/**
 * Hunts damage that `doctor --store` does not name, undamaged stores that it calls damaged, and damage that ends with
 * exit code 0.
 */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { evalKeys } from '../../../reports/evaluation/eval-records.ts';
import type { StepEntry } from '../../../protocol/records.ts';
import { keys, runOfKey } from '../../../protocol/record-keys.ts';
import type { StoreVerdict } from '../../../cli/doctor/store.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { changeOnDisk } from '../../store/change-on-disk.ts';

const starter = join(import.meta.dirname, '../../../examples/starter');
let dir: string;
let storeDir: string;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-doctor-store-'));
  storeDir = join(dir, 'home', 'store');
  mkdirSync(storeDir, { recursive: true });
  cpSync(starter, join(dir, 'step-1'), { recursive: true });
  const { sha256 } = JSON.parse(readFileSync(join(starter, 'longhaul.json'), 'utf8')) as { sha256: string };
  const store = openSqliteStore(storeDir);
  for (let i = 0; i < 3_000; i += 1)
    await store.putOnce(keys.outcome(`train/first/step-1/t-train-${i}/0`), { reason: `reason ${i}.` });
  await store.putOnce(evalKeys.record('nightly'), { eval: 'nightly', note: 'note 1' });
  await store.putOnce(keys.step('second', 1), {
    policy: { uri: fileUri(join(dir, 'step-1')), version: 1 },
    sha256,
  } as StepEntry);
  await store.putOnce(keys.step('second', 2), {
    policy: { uri: fileUri(join(dir, 'taken-away')), version: 2 },
    sha256: 'gone',
  } as StepEntry);
  const artifact = await store.putObject(Buffer.from('diff 1 of it'));
  await store.putOnce('collect:train/third/step-1/t-train-0/0#1', { artifact });
  await store.append([
    { run: 'fourth', rollout: 'train/fourth/step-1/t/0', attempt: 1, event: 'graded', at: '2026-01-01T00:00:00.000Z' },
  ]);
  await store.begin('reward:train/fifth/step-1/t/0#1');
  await store.close();
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function doctor(...args: string[]) {
  let [out, err] = ['', ''];
  const surroundings = {
    out: (text: string) => void (out += text),
    err: (text: string) => void (err += text),
    env: { ...process.env, LONGHAUL_HOME: join(dir, 'home') },
    cwd: dir,
  };
  const exitCode = await runCommandLine(['doctor', '--store', ...args], {
    ...surroundings,
    signal: new AbortController().signal,
  });
  return { exitCode, out, err };
}
const verdict = async () => {
  const { exitCode, out } = await doctor('--json');
  return { exitCode, store: (JSON.parse(out) as { store: StoreVerdict }).store };
};

it('calls an undamaged store undamaged, and counts what it read', async () => {
  expect(await verdict()).toEqual({
    exitCode: 0,
    store: {
      ok: true,
      dir: storeDir,
      read: { records: 3_004, objects: 1, events: 1, executions: 1, checkpoints: 1 },
      unknownCheckpoints: 0,
      damaged: 0,
      first: [],
      runs: [],
    },
  });
  expect((await doctor()).out).toBe(
    `the store at ${storeDir} is undamaged: 3004 records, 1 objects, 1 events, 1 executions, 1 checkpoints\n`,
  );
});

it('names each damaged record, object, event and execution, and whose they are', async () => {
  changeOnDisk(
    storeDir,
    ['"reason 7."', '"reason 8."'],
    ['note 1', 'note 2'],
    ['diff 1 of it', 'diff 2 of it'],
    ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.007Z'],
  );
  const { exitCode, store } = await verdict();
  expect([exitCode, store.ok, store.damaged, store.runs]).toEqual([
    1,
    false,
    4,
    ['eval/nightly', 'first', 'fourth', 'third'],
  ]);
  expect(store.first.map(({ kind, key, runs }) => [kind, key, runs])).toEqual([
    ['records', 'outcome:train/first/step-1/t-train-7/0', ['first']],
    ['records', 'eval:nightly', ['eval/nightly']],
    ['objects', expect.stringMatching(/^sha256:/), ['third']],
    ['events', 'train/fourth/step-1/t/0#1 graded', ['fourth']],
  ]);
  const { out } = await doctor();
  expect(out).toContain(
    'DAMAGED outcome:train/first/step-1/t-train-7/0 (first): the record outcome:train/first/step-1/t-train-7/0 is not what was written',
  );
  expect(out).toMatch(
    /has 4 damaged of 3004 records.*\naffected runs: eval\/nightly, first, fourth, third\nstop the stack \(npx longhaul down\) and restore/,
  );
});

/** Damages a checkpoint in a place that its digest covers. */
function damageCheckpoint(): void {
  const file = join(dir, 'step-1', 'model.safetensors');
  const bytes = readFileSync(file);
  bytes[bytes.length - 100]! ^= 1;
  writeFileSync(file, bytes);
}

/** Why: checkpoints are found by the records of steps, and a damaged record must not hide the other checkpoints. */
it('verifies the checkpoints of whole records beside a damaged one, and counts those that it cannot know', async () => {
  changeOnDisk(storeDir, ['taken-away', 'taken_away']);
  damageCheckpoint();
  const { exitCode, store } = await verdict();
  expect([exitCode, store.read.checkpoints, store.unknownCheckpoints]).toEqual([1, 1, 1]);
  expect(store.first.map(({ kind, key }) => [kind, key])).toEqual([
    ['records', keys.step('second', 2)],
    ['checkpoint', fileUri(join(dir, 'step-1'))],
  ]);
  expect((await doctor()).out).toContain(
    '1 more checkpoints were not verified: the records of their steps are damaged',
  );
});

/** Why: the run of an object is found by the records, and some of these may be unreadable. */
it('names a damaged object if a part of the records cannot be read', async () => {
  changeOnDisk(storeDir, ['diff 1 of it', 'diff 2 of it']);
  const file = join(storeDir, 'store.sqlite');
  const bytes = readFileSync(file);
  const page = Math.floor(bytes.indexOf('"reason 1500."') / 4096);
  bytes.fill(0xee, page * 4096, (page + 1) * 4096);
  writeFileSync(file, bytes);
  const { exitCode, store } = await verdict();
  expect([exitCode, store.read.checkpoints]).toEqual([1, 1]);
  expect(store.first).toContainEqual(expect.objectContaining({ kind: 'objects', runs: ['third'] }));
  expect(store.first).toContainEqual(expect.objectContaining({ kind: 'file', key: 'table results' }));
});

it('names the first of many, and counts all', async () => {
  const changes = Array.from({ length: 80 }, (_, i) => [`"reason ${1_000 + i}."`, `"reason ${1_000 + i}!"`] as const);
  changeOnDisk(storeDir, ...changes);
  const { store } = await verdict();
  expect([store.damaged, store.first.length]).toEqual([80, 50]);
  expect((await doctor()).out).toContain('… and 30 more');
});

it('names a checkpoint whose files are not those that its step has on record', async () => {
  damageCheckpoint();
  const { exitCode, store } = await verdict();
  expect([exitCode, store.runs, store.first]).toEqual([
    1,
    ['second'],
    [
      {
        kind: 'checkpoint',
        key: fileUri(join(dir, 'step-1')),
        problem: expect.stringContaining('its weights hash to'),
        runs: ['second'],
      },
    ],
  ]);
});

it('names a part of the file that SQLite cannot read, and reads the rest', async () => {
  const file = join(storeDir, 'store.sqlite');
  const bytes = readFileSync(file);
  bytes.fill(0xee, bytes.length - 3 * 4096, bytes.length - 4096);
  writeFileSync(file, bytes);
  const { exitCode, store } = await verdict();
  expect(exitCode).toBe(1);
  expect(store.first.some(({ kind }) => kind === 'file')).toBe(true);
  expect(store.read.records).toBeGreaterThan(0);
});

it('a folder without a store has nothing to verify', async () => {
  rmSync(storeDir, { recursive: true });
  expect((await doctor('--json')).exitCode).toBe(0);
});

it('every key names its run', () => {
  const triesOf = (workflowId: string) =>
    keys.oneTry({
      activityType: 'generate',
      workflowExecution: { workflowId, runId: 'one' },
      activityId: '7',
      attempt: 1,
    });
  const attempt = { run: 'r', rollout: 'train/r/step-1/t/0', attempt: 2, task: 't' };
  const all = [
    keys.generate(attempt, 1),
    keys.act(attempt, 1),
    keys.answer(attempt, 1, 0),
    keys.restored('train/r/step-1/t/0#2~1'),
    keys.collect(attempt),
    keys.verdict(attempt),
    keys.outcome(attempt.rollout),
    keys.end(attempt.rollout),
    keys.update('r', 1),
    keys.step('r', 1),
    keys.evaluation('r', 0),
    keys.run('r'),
    keys.changes('r', 'k'),
    keys.runEnd('r'),
    keys.runEnd('r', 2),
    keys.runAgain('r', 1),
    keys.offer('r', 'd'),
    `model:${keys.generate(attempt, 1)}`,
    triesOf(attempt.rollout),
    triesOf('train/r'),
  ];
  for (const key of all) expect([key, runOfKey(key)]).toEqual([key, 'r']);
  const at = 'nightly-2026-01-01T06:00:00Z';
  for (const key of [
    evalKeys.record(at),
    evalKeys.round(at, 1),
    evalKeys.plan(at, 'c', 1),
    evalKeys.cell(at, 1, 'c'),
    evalKeys.end(at, 1),
    keys.outcome(`eval/${at}/p/s/r1-c1/t/0`),
    keys.offer(`eval/${at}`, 'd'),
    triesOf(`eval/${at}/p/s/r1-c1/t/0`),
  ])
    expect([key, runOfKey(key)]).toEqual([key, `eval/${at}`]);
  expect(runOfKey(keys.outcome('rollout/t/1234'))).toBeUndefined();
});
