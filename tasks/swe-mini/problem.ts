/**
 * One problem of swe-mini: a small package with one broken function, the issue that describes the right behaviour, and
 * the cases that the repaired package must answer. It depends only on the task id, and is equal on every machine.
 */

import type { SandboxLimits } from '../../sandboxes/sandbox.ts';
import { createRandom, type Random } from '../random.ts';
import { UnknownTask } from '../environment.ts';
import { type Draft, type DraftFunction, type Edit, FAMILIES, type Family, type Value } from './draft.ts';
import { draftMakers } from './families/index.ts';
import { createNames, type NameSource, type Split } from './names.ts';

/** Working directory and limits of the sandbox, equal for the agent and the grader. */
export const WORKDIR = '/work';
export const LIMITS: SandboxLimits = { memoryMiB: 256, processes: 64, diskMiB: 32 };

export interface Case {
  /** Dotted path for the import: `PACKAGE.MODULE`. */
  readonly module: string;
  readonly function: string;
  readonly arguments: readonly Value[];
  readonly expected: Value;
}

export interface Module {
  /** Relative to the repository. */
  readonly path: string;
  readonly name: string;
  readonly functions: readonly DraftFunction[];
  readonly source: string;
}

export interface Problem {
  readonly taskId: string;
  readonly family: Family;
  readonly issue: string;
  readonly package: string;
  readonly modules: readonly Module[];
  /** Path of the module with the bug, and the broken function in it. */
  readonly path: string;
  readonly target: string;
  /** False if the issue does not name the file. */
  readonly pathGiven: boolean;
  readonly fix: Edit;
  readonly mistake: Edit;
  readonly visible: readonly Case[];
  readonly hidden: readonly Case[];
}

const TASK_ID = /^swe-mini-(train|held-out)-(0|[1-9]\d{0,8})$/;
const VISIBLE_CASES = 3;
const HIDDEN_CASES = 6;

/** Errors: `UnknownTask`. */
export function parseTaskId(taskId: string): { readonly split: Split; readonly index: number } {
  const [, split, index] = TASK_ID.exec(taskId) ?? [];
  if (index === undefined)
    throw new UnknownTask(taskId, 'expected swe-mini-train-N or swe-mini-held-out-N, N from 0 to 999999999');
  return { split: split === 'train' ? 'train' : 'held-out', index: Number(index) };
}

/** Each block of eight indices (8n to 8n + 7) has each family once, in its own order. */
function familyOf(split: Split, index: number): Family {
  const block = Math.floor(index / FAMILIES.length);
  const order = createRandom(`swe-mini/${split}/families/${block}`).shuffle(FAMILIES);
  return order[index % FAMILIES.length] ?? FAMILIES[0];
}

function sourceOf(functions: readonly DraftFunction[], draft?: Draft): string {
  return functions
    .map((f) => {
      const body = f.name === draft?.target ? draft.broken : f.body;
      return [`def ${f.name}(${f.parameters.join(', ')}):`, ...body, ''].join('\n');
    })
    .join('\n');
}

/** A correct function, from any family. */
function bystander(random: Random, names: NameSource): DraftFunction {
  const draft = draftMakers[random.pick(FAMILIES.filter((family) => family !== 'swapped-arguments'))]({
    random,
    names,
  });
  const [only] = draft.functions;
  if (only === undefined) throw new RangeError(`${draft.family} drafted no function`);
  return only;
}

function insertAt<T>(items: readonly T[], extra: readonly T[], at: number): T[] {
  return [...items.slice(0, at), ...extra, ...items.slice(at)];
}

function frame(random: Random, issue: string, path: string): { readonly text: string; readonly pathGiven: boolean } {
  if (random.chance(0.2)) return { text: issue, pathGiven: false };
  const texts = [`In \`${path}\`: ${issue}`, `${issue} See \`${path}\`.`, `Fix \`${path}\`. ${issue}`];
  return { text: random.pick(texts), pathGiven: true };
}

function casesOf(module: Module, packageName: string, count: number, random: Random): Case[] {
  return module.functions.flatMap((f) =>
    Array.from({ length: count }, (_, n) => {
      const values = f.sample(random, n);
      const name = `${packageName}.${module.name}`;
      return { module: name, function: f.name, arguments: values, expected: f.reference(...values) };
    }),
  );
}

/** Errors: `UnknownTask`. */
export function makeProblem(taskId: string): Problem {
  const { split, index } = parseTaskId(taskId);
  const random = createRandom(taskId);
  const names = createNames(split, random);
  const draft = draftMakers[familyOf(split, index)]({ random, names });
  const extra = Array.from({ length: draft.functions.length === 1 && random.chance(0.4) ? 2 : 1 }, () =>
    bystander(random, names),
  );
  const packageName = names.next();
  const moduleOf = (functions: readonly DraftFunction[], broken?: Draft): Module => {
    const name = names.next();
    return { path: `${packageName}/${name}.py`, name, functions, source: sourceOf(functions, broken) };
  };
  const main = moduleOf(insertAt(draft.functions, extra, random.integer(0, draft.functions.length)), draft);
  const other = moduleOf([bystander(random, names), bystander(random, names)]);
  const { text, pathGiven } = frame(random, draft.issue, main.path);
  const modules = [main, other].sort((x, y) => (x.path < y.path ? -1 : 1));
  const cases = (count: number, stream: string): Case[] =>
    modules.flatMap((module) => casesOf(module, packageName, count, createRandom(`${taskId}/${stream}`)));
  return {
    taskId,
    family: draft.family,
    issue: text,
    package: packageName,
    modules,
    path: main.path,
    target: draft.target,
    pathGiven,
    fix: draft.fix,
    mistake: draft.mistake,
    visible: cases(VISIBLE_CASES, 'visible'),
    hidden: cases(HIDDEN_CASES, 'hidden'),
  };
}
