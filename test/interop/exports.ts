/** A run's exports, read in Python: every format by the packages of those who train on it, where they are installed. */

import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { exportRun } from '../../reports/export/export-run.ts';
import { FORMATS } from '../../reports/export/formats/format.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { readByProjects, type Reading } from './export-environments.ts';
import { recordRun, RUN } from '../reports/export/recorded-run.ts';

/**
 * Writes a folder for each format below `root`, and lets every project read them in an environment of its own. Returns
 * what was read and what could not be installed. Errors: what Python says of an export.
 */
export async function checkExports(root: string, env: NodeJS.ProcessEnv): Promise<readonly Reading[]> {
  const store = openSqliteStore(path.join(root, 'exports-store'));
  const folder = path.join(root, 'exports');
  try {
    await recordRun(store, root);
    const deps = { store, tasks: new TaskLoader(store), signal: new AbortController().signal, note: () => undefined };
    for (const format of FORMATS)
      await exportRun(
        {
          name: RUN,
          format,
          out: path.join(folder, format),
          validOnly: false,
          fill: false,
          padTokenId: 0,
          removesReasoning: false,
        },
        deps,
      );
  } finally {
    await store.close();
  }
  const page = path.join(import.meta.dirname, '../../docs/export.md');
  return readByProjects(env, (python, part, own) =>
    execFileSync(python, [path.join(import.meta.dirname, 'exports.py'), folder, page, part], {
      env: own,
      stdio: 'inherit',
      timeout: 300_000,
    }),
  );
}
