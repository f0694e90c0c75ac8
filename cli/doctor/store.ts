/** `longhaul doctor --store`: verifies every row of this folder's store, and the checkpoints that its records name. */

import { existsSync } from 'node:fs';
import type { StepEntry } from '../../protocol/records.ts';
import { runOfKey } from '../../protocol/record-keys.ts';
import { folderOf, pathOf } from '../../protocol/policy-uri.ts';
import { storeName, verifyStore, wholeRecords } from '../../store/open-store.ts';
import type { DamagedRow, StoreReport } from '../../store/verify-store.ts';
import { verifyCheckpoint } from '../../trainer/checkpoints/verified-checkpoint.ts';
import { storeUrlOf } from '../../connection/store-url.ts';
import type { VerbContext } from '../verb.ts';

/** Number of damaged items that are listed; all are counted. */
const NAMED = 50;
const EVERY_MS = 2_000;

export interface DamageFinding {
  readonly kind: DamagedRow['kind'] | 'checkpoint';
  readonly key: string;
  readonly problem: string;
  /** Runs and evals (as `eval/ID`) that it belongs to; empty if they are unknown. */
  readonly runs: readonly string[];
}

export interface StoreVerdict {
  readonly ok: boolean;
  readonly dir: string;
  readonly read: StoreReport['read'] & { readonly checkpoints: number };
  /** Number of checkpoints whose step records are damaged, so that their paths and hashes are unknown. */
  readonly unknownCheckpoints: number;
  /** Number of damaged items. */
  readonly damaged: number;
  /** The first damaged items. */
  readonly first: readonly DamageFinding[];
  readonly runs: readonly string[];
}

function runsOf({ kind, key, run, namedBy = [] }: DamagedRow): string[] {
  if (run !== undefined) return [run];
  if (kind === 'file') return [];
  return [...new Set((kind === 'objects' ? namedBy : [key]).flatMap((one) => runOfKey(one) ?? []))];
}

/** Verifies the checkpoints of undamaged step records, if their folders exist: retention removes others. */
async function damagedCheckpoints(url: string, note: (line: string) => void, signal: AbortSignal) {
  const damaged: DamageFinding[] = [];
  const { whole, damaged: unknown, cut } = await wholeRecords<StepEntry>(url, 'step:');
  const there = whole.flatMap(({ key, value: { policy, sha256 } }) =>
    sha256 !== null && existsSync(folderOf(policy.uri) ?? '') ? [{ key, policy, sha256 }] : [],
  );
  for (const [i, { key, policy, sha256 }] of there.entries()) {
    signal.throwIfAborted();
    note(`checkpoint ${i + 1} of ${there.length}: ${policy.uri}`);
    await verifyCheckpoint(pathOf(policy.uri), sha256).catch((error: unknown) => {
      damaged.push({
        kind: 'checkpoint',
        key: policy.uri,
        problem: error instanceof Error ? error.message : String(error),
        runs: [runOfKey(key) ?? []].flat(),
      });
    });
  }
  if (cut)
    damaged.push({
      kind: 'file',
      key: 'records of steps',
      problem: `cannot all be read: only ${there.length} checkpoints were verified`,
      runs: [],
    });
  return { read: there.length, unknown, damaged };
}

/** Limits `note` to one line every two seconds. */
function seldom(note: (line: string) => void): (line: string) => void {
  let last = Date.now();
  return (line) => {
    if (Date.now() - last < EVERY_MS) return;
    last = Date.now();
    note(line);
  };
}

/** Returns `undefined` if this folder has no store. Errors: those of `verifyStore`. */
export async function examineRecords({ env, cwd, note, signal }: VerbContext): Promise<StoreVerdict | undefined> {
  const url = storeUrlOf(env, cwd);
  const say = seldom(note);
  const report = await verifyStore(url, { progress: (rows) => say(`${rows} rows read`), signal });
  if (report === undefined) return undefined;
  const rows = report.damaged.map((row): DamageFinding => ({
    kind: row.kind,
    key: row.key,
    problem: row.problem,
    runs: runsOf(row),
  }));
  const checkpoints = await damagedCheckpoints(url, say, signal);
  const damaged = [...rows, ...checkpoints.damaged];
  const runs = [...new Set(damaged.flatMap((one) => one.runs))].toSorted((a, b) => a.localeCompare(b));
  const read = { ...report.read, checkpoints: checkpoints.read };
  return {
    ok: damaged.length === 0,
    dir: storeName(url),
    read,
    unknownCheckpoints: checkpoints.unknown,
    damaged: damaged.length,
    first: damaged.slice(0, NAMED),
    runs,
  };
}

export function recordLines({ ok, dir, read, unknownCheckpoints, damaged, first, runs }: StoreVerdict): string[] {
  const counts =
    `${read.records} records, ${read.objects} objects, ${read.events} events, ${read.executions} executions, ` +
    `${read.checkpoints} checkpoints`;
  if (ok) return [`the store at ${dir} is undamaged: ${counts}`];
  return [
    ...first.map(
      ({ key, problem, runs: its }) => `DAMAGED ${key}${its.length > 0 ? ` (${its.join(', ')})` : ''}: ${problem}`,
    ),
    ...(damaged > first.length ? [`… and ${damaged - first.length} more`] : []),
    `the store at ${dir} has ${damaged} damaged of ${counts}`,
    ...(unknownCheckpoints > 0
      ? [`${unknownCheckpoints} more checkpoints were not verified: the records of their steps are damaged`]
      : []),
    ...(runs.length > 0 ? [`affected runs: ${runs.join(', ')}`] : []),
    'stop the stack (npx longhaul down) and restore the store, or the checkpoint, from a copy; ' +
      'or start these runs under other names',
  ];
}
