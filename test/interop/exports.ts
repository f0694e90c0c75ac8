/** A run's exports, read in Python: every format by the packages of those who train on it, where they are installed. */

import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { exportRun } from '../../reports/export/export-run.ts';
import { FORMATS } from '../../reports/export/formats/format.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { readByProjects, type Reading } from './export-environments.ts';
import { recordRun, recordTurnRewards, RUN } from '../reports/export/recorded-run.ts';

/** Exports of what `record` records, in every format. */
async function writeExports(
  storeFolder: string,
  record: (store: Store, dir: string) => Promise<void>,
  root: string,
  out: (format: string) => string,
): Promise<void> {
  const store = openSqliteStore(storeFolder);
  try {
    await record(store, root);
    const deps = { store, tasks: new TaskLoader(store), signal: new AbortController().signal, note: () => undefined };
    for (const format of FORMATS)
      await exportRun(
        { name: RUN, format, out: out(format), validOnly: false, fill: false, padTokenId: 0, removesReasoning: false },
        deps,
      );
  } finally {
    await store.close();
  }
}

/**
 * Writes a folder for each format below `root`, and lets every project read them in an environment of its own. Returns
 * what was read and what could not be installed. Errors: what Python says of an export.
 */
export async function checkExports(root: string, env: NodeJS.ProcessEnv): Promise<readonly Reading[]> {
  const folder = path.join(root, 'exports');
  await writeExports(path.join(root, 'exports-store'), recordRun, root, (format) => path.join(folder, format));
  await writeExports(path.join(root, 'turns-store'), recordTurnRewards, root, (format) =>
    path.join(folder, 'turns', format),
  );
  const page = path.join(import.meta.dirname, '../../docs/export.md');
  return readByProjects(env, (python, part, own) =>
    execFileSync(python, [path.join(import.meta.dirname, 'exports.py'), folder, page, part], {
      env: own,
      stdio: 'inherit',
      timeout: 300_000,
    }),
  );
}
