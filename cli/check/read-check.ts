/** What `longhaul check` looks at: the entries of a run or of an eval, whichever the file describes. */

import { resolve } from 'node:path';
import { readRunConfig, readSettings } from '../../config/read-config.ts';
import type { AgentSettings } from '../../protocol/rollout.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import type { SweepConfig } from '../../protocol/eval.ts';
import { readSweepConfig } from '../eval/read-config.ts';

/** One dataset, and the tasks of it that the configuration may use. */
export interface CheckedEntry {
  readonly source: string;
  readonly environment: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly folder?: string;
  /** Where the options are written, for messages. */
  readonly field: { readonly name: string; readonly options: string };
  /** Of an eval. Absent: every split, whole. */
  readonly range?: { readonly split?: string; readonly from: number; readonly count?: number };
}

interface Common {
  readonly name: string;
  readonly modules?: readonly string[];
  readonly agent: AgentSettings;
  readonly entries: readonly CheckedEntry[];
  /** Task keys of an eval that names them. */
  readonly ids: readonly string[];
}

export type CheckConfig =
  | (Common & { readonly kind: 'run'; readonly config: RunConfig })
  | (Common & { readonly kind: 'eval'; readonly config: SweepConfig });

function ofRun(config: RunConfig): CheckConfig {
  const { run, modules, agent, tasks } = config;
  const entries = tasks.map((entry, i) => {
    const at = tasks.length === 1 ? 'task' : `tasks.${i}`;
    const field = { name: tasks.length === 1 ? 'task.name' : `${at}.environment`, options: `${at}.options` };
    return { ...entry, field };
  });
  return { kind: 'run', name: run, ...(modules && { modules }), agent, entries, ids: [], config };
}

function ofEval(config: SweepConfig): CheckConfig {
  const { eval: name, modules, agent, tasks } = config;
  const entries: CheckedEntry[] =
    'ids' in tasks
      ? []
      : [
          {
            source: tasks.name,
            environment: tasks.name,
            options: tasks.options,
            ...(tasks.folder !== undefined && { folder: tasks.folder }),
            field: { name: 'tasks.name', options: 'tasks.options' },
            range: tasks,
          },
        ];
  const ids = 'ids' in tasks ? tasks.ids : [];
  return { kind: 'eval', name, ...(modules && { modules }), agent, entries, ids, config };
}

/** Errors: `UserInputError` for the first invalid setting. */
export async function readCheck(file: string, set: readonly string[], cwd: string): Promise<CheckConfig> {
  const path = resolve(cwd, file);
  const isEval = 'policies' in (await readSettings(path, set));
  return isEval ? ofEval(await readSweepConfig(path, { set }, cwd)) : ofRun(await readRunConfig(path, { set }, cwd));
}
