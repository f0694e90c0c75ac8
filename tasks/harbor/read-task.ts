/**
 * A task folder as one model, whichever of the two layouts it has: Harbor's (`task.toml`, `instruction.md`) or that of
 * Terminal-Bench 1 (`task.yaml`). Reading it checks it; nothing is built or started.
 */

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { isFile, isFolder } from './folder.ts';
import type { MinReward } from './rewards.ts';
import { type Healthcheck, networkAsked, readTaskToml, type TaskToml } from './task-toml.ts';

/** Seconds of a verifier whose task gives none. */
const VERIFIER_SECONDS = 600;

/** How the verifier's output becomes rewards: by reward files, or by what it printed. */
export type RewardKind = 'files' | 'pytest' | 'swebench';

/** What the verifier is, for a step or for the whole task. */
export interface Verifier {
  /** Folders whose files come into `/tests`, each over those before. */
  readonly tests: readonly string[];
  /** Single files that come into `/tests`, too. */
  readonly also: readonly string[];
  /** The script below `/tests`. */
  readonly script: string;
  readonly kind: RewardKind;
  readonly seconds: number;
  readonly env: Readonly<Record<string, string>>;
}

export interface Step {
  readonly name: string;
  readonly instruction: string;
  readonly verifier: Verifier;
  /** Folder whose files come into the working folder before the step. */
  readonly workdir?: string;
  readonly healthcheck?: Healthcheck;
  readonly minReward?: MinReward;
  /** What the oracle runs: a folder for `/solution` with its script, or lines for the shell. Absent: there is none. */
  readonly solution?: { readonly folder: string; readonly script: string } | { readonly lines: readonly string[] };
}

export interface TaskFolder {
  readonly folder: string;
  readonly name: string;
  readonly toml: TaskToml;
  /** One for a task without steps. */
  readonly steps: readonly [Step, ...Step[]];
  readonly isMultiStep: boolean;
  /** Folder of Dockerfile and docker-compose.yaml. */
  readonly environment: string;
  /** Name of the service in which the agent works. */
  readonly main: 'main' | 'client';
}

/** True for a folder that is a task. */
export const isTask = (folder: string): boolean =>
  isFile(join(folder, 'task.toml')) || isFile(join(folder, 'task.yaml'));

function textOf(file: string, remedy: string): string {
  if (!existsSync(file)) throw new UserInputError(file, undefined, remedy);
  return readFileSync(file, 'utf8');
}

function solutionIn(folder: string): Pick<Step, 'solution'> {
  return isFile(join(folder, 'solve.sh')) ? { solution: { folder, script: 'solve.sh' } } : {};
}

function verifierOf(toml: TaskToml, folders: readonly string[], own?: Partial<TaskToml['verifier']>): Verifier {
  return {
    tests: folders.filter(isFolder),
    also: [],
    script: 'test.sh',
    kind: 'files',
    seconds: own?.timeout_sec ?? toml.verifier.timeout_sec ?? VERIFIER_SECONDS,
    env: { ...toml.verifier.env, ...own?.env },
  };
}

function mustHaveTests(folder: string, { tests, script }: Verifier): void {
  if (!tests.some((each) => isFile(join(each, script))))
    throw new UserInputError(folder, undefined, `give the task a script tests/${script} that grades it`);
}

function stepsOf(folder: string, toml: TaskToml): Step[] {
  const tests = join(folder, 'tests');
  const steps = (toml.steps ?? []).map((given): Step => {
    const place = join(folder, 'steps', given.name);
    const verifier = verifierOf(toml, [tests, join(place, 'tests')], given.verifier);
    mustHaveTests(place, verifier);
    return {
      name: given.name,
      instruction: textOf(join(place, 'instruction.md'), 'give the step its instruction').trim(),
      verifier,
      ...(isFolder(join(place, 'workdir')) && { workdir: join(place, 'workdir') }),
      ...(given.healthcheck && { healthcheck: given.healthcheck }),
      ...(given.min_reward !== undefined && { minReward: given.min_reward }),
      ...solutionIn(join(place, 'solution')),
    };
  });
  if (steps.length > 0) return steps;
  const verifier = verifierOf(toml, [tests]);
  mustHaveTests(folder, verifier);
  const instruction = textOf(join(folder, 'instruction.md'), 'give the task its instruction').trim();
  return [{ name: basename(folder), instruction, verifier, ...solutionIn(join(folder, 'solution')) }];
}

function readHarbor(folder: string): TaskFolder {
  const file = join(folder, 'task.toml');
  const toml = readTaskToml(readFileSync(file, 'utf8'), file);
  const [first, ...others] = stepsOf(folder, toml);
  if (first === undefined) throw new UserInputError(file, undefined, 'give the task a step');
  const isMultiStep = (toml.steps ?? []).length > 0;
  if (
    isMultiStep &&
    [toml.verifier, ...(toml.steps ?? []).map(({ verifier }) => verifier)].some((one) => isSeparate(one))
  )
    throw new UserInputError(
      `${file}: verifier.environment_mode`,
      'separate',
      'the steps of a task are graded in place: leave it out, or leave the task out',
    );
  return {
    folder,
    name: toml.task?.name ?? basename(folder),
    toml,
    steps: [first, ...others],
    isMultiStep,
    environment: join(folder, 'environment'),
    main: 'main',
  };
}

/** True if the verifier has a sandbox of its own. */
export const isSeparate = (verifier: Partial<TaskToml['verifier']> | undefined): boolean =>
  verifier?.environment_mode === undefined
    ? verifier?.environment !== undefined
    : verifier.environment_mode === 'separate';

const legacy = z.object({
  instruction: z.string().min(1).optional(),
  descriptions: z.array(z.object({ key: z.string(), description: z.string() })).optional(),
  parser_name: z.enum(['pytest', 'swebench']).default('pytest'),
  max_agent_timeout_sec: z.number().positive().optional(),
  max_test_timeout_sec: z.number().positive().default(VERIFIER_SECONDS),
});
const lines = z.array(z.union([z.string(), z.object({ command: z.string() }).transform(({ command }) => command)]));

function legacySolution(folder: string): Pick<Step, 'solution'> {
  if (isFile(join(folder, 'solution.sh'))) return { solution: { folder, script: 'solution.sh' } };
  const file = join(folder, 'solution.yaml');
  if (!isFile(file)) return {};
  const read = lines.safeParse(parse(readFileSync(file, 'utf8')));
  if (!read.success) throw new UserInputError(file, undefined, 'give a list of commands');
  return { solution: { lines: read.data } };
}

function readLegacy(folder: string): TaskFolder {
  const file = join(folder, 'task.yaml');
  let given: unknown;
  try {
    given = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UserInputError(file, undefined, `mend its YAML: ${(error as Error).message.split('\n')[0] ?? ''}`);
  }
  const read = legacy.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    const path = issue?.path.join('.') ?? '';
    throw new UserInputError(`${file}: ${path}`, undefined, issue?.message ?? 'mend it');
  }
  const {
    instruction,
    descriptions,
    parser_name: kind,
    max_agent_timeout_sec: agent,
    max_test_timeout_sec: test,
  } = read.data;
  const text = instruction ?? (descriptions?.find(({ key }) => key === 'base') ?? descriptions?.[0])?.description;
  if (text === undefined) throw new UserInputError(`${file}: instruction`, undefined, 'give the task its instruction');
  const script = join(folder, 'run-tests.sh');
  textOf(script, 'give the task a script run-tests.sh that grades it');
  const verifier: Verifier = {
    tests: [join(folder, 'tests')].filter(isFolder),
    also: [script],
    script: 'run-tests.sh',
    kind,
    seconds: test,
    env: { TEST_DIR: '/tests' },
  };
  const name = basename(folder);
  const step: Step = { name, instruction: text.trim(), verifier, ...legacySolution(folder) };
  const toml = readTaskToml(agent === undefined ? '' : `[agent]\ntimeout_sec = ${agent}`, file);
  return { folder, name, toml, steps: [step], isMultiStep: false, environment: folder, main: 'client' };
}

/**
 * Reads a task folder. `drops`: a task that asks for a network is taken without one. Errors: `UserInputError` with the
 * file, the field and the remedy.
 */
export function readTask(folder: string, drops: boolean): TaskFolder {
  const task = isFile(join(folder, 'task.toml')) ? readHarbor(folder) : readLegacy(folder);
  const asked = drops ? undefined : networkAsked(task.toml);
  if (asked !== undefined)
    throw new UserInputError(
      `${join(folder, 'task.toml')}: ${asked.field}`,
      asked.value,
      'sandboxes have no network: leave the task out (options.except), or run it without one (options.network: drop)',
    );
  return task;
}
