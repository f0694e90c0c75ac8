/** Opens datasets and loads their tasks, as workers would, and reports what is wrong with each instead of the first. */

import { agentNamed, defaultAgent } from '../../agents/agent.ts';
import { checkAgent, checkLoaded, openEntry } from '../../config/open-tasks.ts';
import { settledRange } from '../../config/sweep-config.ts';
import { resolveOptions } from '../../modules/options.ts';
import { messageWithPlace } from '../../modules/own-frame.ts';
import type { AgentSettings } from '../../protocol/rollout.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { taskKey, type TaskSource } from '../../protocol/task-key.ts';
import type { BadRecord } from '../../tasks/data/bad-record.ts';
import type { Dataset, Task } from '../../tasks/environment.ts';
import { programOfTask } from '../../tasks/program-of-task.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { CheckConfig, CheckedEntry } from './read-check.ts';

export interface Problem {
  readonly source: string;
  /** Absent: the dataset cannot be opened. */
  readonly task?: string;
  /** The task's name in its source. */
  readonly label?: string;
  /** Of a bad record. */
  readonly file?: string;
  readonly number?: number;
  readonly field?: string;
  readonly message: string;
}

export interface CheckedSplit {
  readonly split: string;
  readonly tasks: number;
  /** Positions of the tasks that were loaded. */
  readonly loaded: readonly number[];
}

export interface CheckedSource {
  readonly source: string;
  readonly environment: string;
  readonly known?: TaskSource;
  readonly splits: readonly CheckedSplit[];
  /** What the dataset says of itself. */
  readonly notes?: readonly string[];
  /** Number of tasks with something wrong. */
  readonly bad: number;
  /** The first of them. */
  readonly problems: readonly Problem[];
}

const SHOWN = 10;

/** `most` of `count` positions from `from` on, evenly spread; the first and the last are among them. */
export function spread(from: number, count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, i) => from + i);
  if (most <= 1) return [from];
  return Array.from({ length: most }, (_, i) => from + Math.round((i * (count - 1)) / (most - 1)));
}

/** By its name: a module may use another copy of this package. */
const isBadRecord = (error: unknown): error is BadRecord => error instanceof Error && error.name === 'BadRecord';

const badRecordOf = (error: unknown): BadRecord | undefined =>
  [error, (error as { cause?: unknown } | undefined)?.cause].find(isBadRecord);

const placeOf = ({ file, number, field }: BadRecord): Pick<Problem, 'file' | 'number' | 'field'> => ({
  file,
  number,
  field,
});

function problemOf(source: string, error: unknown, of: Pick<Problem, 'task' | 'label'> = {}): Problem {
  const bad = badRecordOf(error);
  return { source, ...of, ...(bad && placeOf(bad)), message: messageWithPlace(error) };
}

/** What prevents that a dataset opens: each of the bad records that were found, or the error. */
function problemsOf(source: string, error: unknown): Problem[] {
  const bad = badRecordOf(error);
  const { more = [] } = bad ?? {};
  if (bad === undefined || more.length === 0) return [problemOf(source, error)];
  // The message of the first has those of all, one a line.
  const [first = bad.reason] = bad.message.split('\n');
  return [
    { source, ...placeOf(bad), message: first },
    ...more.map((one) => ({ source, ...placeOf(one), message: one.message })),
  ];
}

interface Checking {
  readonly agent: AgentSettings;
  readonly modules: ObjectRef | undefined;
}

/** Errors: any, for what a rollout of the task would fail with before its first turn. */
export function checkTask(key: string, task: Task, { agent, modules }: Checking): void {
  checkLoaded(key, task, modules);
  const odd = task.messages.findIndex((message) => typeof (message as Partial<typeof message>).content !== 'string');
  if (odd >= 0) throw new TypeError(`message ${odd} of task ${key} has no content: give { role, content: a text }`);
  const { type = defaultAgent(task.tools), options } =
    agent.type === undefined ? (task.agent ?? {}) : { type: agent.type, options: agent.options };
  resolveOptions(agentNamed(type, modules), options, 'agent.options');
  programOfTask(task, { type, ...(options && { options }) }, modules);
}

/** What may be compared of two loads of a task. */
const seen = ({ family, messages, tools, agent, sandboxes, gradedIn }: Task): string =>
  JSON.stringify([family, messages, tools, agent, sandboxes, gradedIn]);

/** A task as another process would load it. */
async function loadedAgain(source: TaskSource, split: string, index: number, modules: ObjectRef | undefined) {
  return (await new TaskLoader().open(source, modules)).load(split, index);
}

const labelOf = (dataset: Dataset, split: string, index: number): { label?: string } => {
  const label = dataset.label?.(split, index);
  return label === undefined ? {} : { label };
};

function rangesOf(dataset: Dataset, { range, source }: CheckedEntry): ReadonlyArray<ReturnType<typeof settledRange>> {
  if (range === undefined) return Object.entries(dataset.splits).map(([split, count]) => ({ split, from: 0, count }));
  const { split, from, count } = settledRange(range, dataset, source);
  const left = Math.max(0, (dataset.splits[split] ?? 0) - from);
  return [{ split, from, count: Math.min(count, left) }];
}

/** Called after each task, with the number of tasks so far. */
type Progress = (source: string, loaded: number) => void;

/** Loads at most `most` tasks of each split. Errors: `UserInputError` for an unknown environment or invalid options. */
async function checkEntry(
  entry: CheckedEntry,
  most: number,
  checking: Checking,
  progress: Progress,
  signal: AbortSignal,
): Promise<CheckedSource> {
  const { source, environment } = entry;
  const { modules } = checking;
  const opened = await openEntry(entry, entry.field, new TaskLoader(), modules).catch((error: unknown) => error);
  if (!(typeof opened === 'object' && opened !== null && 'dataset' in opened)) {
    if (!(opened instanceof Error && opened.cause instanceof Error) || opened.cause.name === 'UnknownName')
      throw opened;
    const problems = problemsOf(source, opened.cause);
    return { source, environment, splits: [], bad: problems.length, problems };
  }
  const { dataset, source: known } = opened as Awaited<ReturnType<typeof openEntry>>;
  const splits: CheckedSplit[] = [];
  const problems: Problem[] = [];
  let [bad, done] = [0, 0];
  for (const { split, from, count } of rangesOf(dataset, entry)) {
    const loaded = spread(from, count, most);
    for (const index of loaded) {
      signal.throwIfAborted();
      const key = taskKey(source, split, index);
      try {
        const task = await dataset.load(split, index);
        checkTask(key, task, checking);
        if (index === loaded[0] && seen(task) !== seen(await loadedAgain(known, split, index, modules)))
          throw new TypeError(`task ${key} is another one when it is loaded again: every worker must load the same`);
      } catch (error) {
        bad += 1;
        if (problems.length < SHOWN)
          problems.push(problemOf(source, error, { task: key, ...labelOf(dataset, split, index) }));
      }
      done += 1;
      progress(source, done);
    }
    splits.push({ split, tasks: dataset.splits[split] ?? 0, loaded });
  }
  return { source, environment, known, splits, ...(dataset.notes && { notes: dataset.notes }), bad, problems };
}

/** The tasks that an eval names by their keys: each source has those of its environment. */
async function checkIds(ids: readonly string[], checking: Checking): Promise<CheckedSource[]> {
  const loader = new TaskLoader();
  const { modules } = checking;
  const sources = new Map<string, { bad: number; problems: Problem[] }>();
  for (const id of ids) {
    const loaded = await loader.load({ task: id, ...(modules && { modules }) }).catch((error: unknown) => error);
    const isLoaded = typeof loaded === 'object' && loaded !== null && 'task' in loaded && 'source' in loaded;
    const source = isLoaded ? String(loaded.source) : id.replace(/-[^-]+-\d+$/, '');
    const found = sources.get(source) ?? { bad: 0, problems: [] };
    sources.set(source, found);
    try {
      if (!isLoaded) throw loaded;
      checkTask(id, loaded.task as Task, checking);
    } catch (error) {
      found.bad += 1;
      if (found.problems.length < SHOWN) found.problems.push(problemOf(source, error, { task: id }));
    }
  }
  return [...sources].map(([source, found]) => ({
    source,
    environment: source,
    known: { environment: source, options: {} },
    splits: [],
    ...found,
  }));
}

/** Checks every entry. Errors: `UserInputError` for an unknown environment or agent, or for invalid options. */
export async function checkSources(
  { entries, ids, agent }: CheckConfig,
  modules: ObjectRef | undefined,
  most: number,
  progress: Progress,
  signal: AbortSignal,
): Promise<CheckedSource[]> {
  const checking = { agent, modules };
  checkAgent(agent, modules);
  if (ids.length > 0) return checkIds(ids, checking);
  const checked: CheckedSource[] = [];
  for (const entry of entries) checked.push(await checkEntry(entry, most, checking, progress, signal));
  return checked;
}
