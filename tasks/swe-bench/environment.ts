/**
 * The environment `swe_bench`: resolve an issue of a real repository, graded by hidden tests in a fresh sandbox. Its
 * records are those of SWE-bench and its relatives, as they are.
 */

import { join } from 'node:path';
import type { Message } from '../../protocol/message.ts';
import { openRecords } from '../data/record-options.ts';
import { type Environment, MAIN, type SandboxRequest, type Task } from '../environment.ts';
import { type Machine, machineOf } from '../resources.ts';
import { assetsIn, checkAssets } from './assets.ts';
import { collectPatch } from './collect.ts';
import { programsOf, specifiedScript } from './commands/specified.ts';
import { type Grading, gradePatch, testPathsOf } from './grade.ts';
import { type Instance, instanceSchema, parserOf } from './instance.ts';
import { type Options, options as schema } from './options.ts';
import { BUG, installRecipe, RECIPE_VENV, setUpScript } from './prepare.ts';
import { openingMessage } from './prompt.ts';
import { recipeFiles } from './recipe.ts';
import { evalTypeOf } from './resolved.ts';
import type { TestPlan } from './run-tests.ts';
import { filled, imageOf, RULES } from './sources.ts';
import { splitScript, testCommandOf } from './test-commands.ts';

const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** R2E-Gym's own script; SkyRL hides it from the agent, as this does. */
const R2E_TESTS = 'bash run_tests.sh';

/** Chrome does not run as root, whose script changes the user. The sandbox's user is not root, and cannot. */
const AS_ANOTHER = /\bsu chromeuser -c /gu;

/** An instance under the options of its entry. */
interface Opened {
  readonly instance: Instance;
  readonly given: Options;
  /** Absolute. Absent: the instance has an image. */
  readonly recipe: string | undefined;
  /** An absolute path. `undefined`: none was given. */
  readonly assets: string | undefined;
  readonly workdir: string;
}

/** The agent's commits do not depend on the day, and an index of packages is never asked. */
const ENV: Readonly<Record<string, string>> = {
  GIT_AUTHOR_NAME: 'agent',
  GIT_AUTHOR_EMAIL: 'agent@longhaul.invalid',
  GIT_AUTHOR_DATE: '2024-12-31T12:00:00Z',
  GIT_COMMITTER_NAME: 'agent',
  GIT_COMMITTER_EMAIL: 'agent@longhaul.invalid',
  GIT_COMMITTER_DATE: '2024-12-31T12:00:00Z',
  PIP_NO_INDEX: '1',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
};

function sandboxOf({ instance, given, recipe, workdir }: Opened, grades: boolean): SandboxRequest {
  const rules = RULES[instance.source];
  const { bug } = instance;
  const programs = recipe === undefined ? programsOf(instance) : undefined;
  const own = given.path ?? (recipe === undefined ? (programs?.path ?? rules.path) : [`${RECIPE_VENV}/bin`]);
  const isKept = given.history === 'keep' && bug === undefined;
  const image =
    grades && given.gradeImage !== undefined ? filled(given.gradeImage, instance) : imageOf(instance, given.image);
  const bugFile = bug === undefined ? [] : [{ path: BUG, content: bug }];
  const setup = setUpScript(instance, {
    workdir,
    history: isKept ? 'keep' : 'squash',
    ...(recipe !== undefined && { before: installRecipe(workdir, RECIPE_VENV) }),
    hidden: grades ? [] : rules.hidden,
  });
  return {
    workdir,
    setup,
    env: { ...ENV, ...programs?.env, PATH: [...own, ...SYSTEM_PATH].join(':'), ...given.env },
    limits: { processes: given.processes },
    ...(recipe === undefined
      ? { profile: 'swe', files: bugFile, ...(image !== undefined && { image }) }
      : { files: [...recipeFiles(recipe, instance), ...bugFile] }),
  };
}

function planOf({ instance, given, assets, workdir }: Opened): TestPlan {
  const { evalScript, testPatch, baseCommit, expected } = instance;
  const halves = typeof evalScript === 'string' ? splitScript(evalScript) : evalScript;
  const specified = halves ?? (instance.testCommand === undefined ? specifiedScript(instance) : undefined);
  const scripted = given.testCommand === undefined ? specified : undefined;
  const test =
    expected !== undefined && given.testCommand === undefined ? R2E_TESTS : testCommandOf(instance, given.testCommand);
  const plan = scripted ?? { prepare: '', test };
  // The commit that the script restores tests from is not there under its name if the history was squashed.
  const prepare = baseCommit === undefined ? plan.prepare : plan.prepare.replaceAll(baseCommit, 'HEAD');
  return {
    workdir,
    testPatch,
    testPaths: testPathsOf(instance),
    assets: assetsIn(assets, instance),
    appliesItself: /^\s*git apply /mu.test(prepare),
    script: { prepare, test: plan.test.replaceAll(AS_ANOTHER, 'bash -c ') },
  };
}

/** A word that ends a text in a shell, and is no line of it. */
function endOf(text: string): string {
  let end = 'END_OF_PATCH';
  while (text.includes(end)) end += '_';
  return end;
}

function goldMessages({ patch, reverse }: NonNullable<Instance['gold']>, workdir: string): Message[] {
  const end = endOf(patch);
  const body = patch.endsWith('\n') ? patch : `${patch}\n`;
  const command = `cd ${workdir} && git apply ${reverse ? '-R ' : ''}--whitespace=nowarn - <<'${end}'\n${body}${end}`;
  return [
    { role: 'assistant', content: '', toolCalls: [{ name: 'bash', arguments: { command } }] },
    { role: 'assistant', content: '', toolCalls: [{ name: 'finish', arguments: {} }] },
  ];
}

function taskOf(opened: Opened): Task {
  const { instance, given, workdir } = opened;
  const { gold, source, repo } = instance;
  const { memoryMiB, diskMiB, cpus, setUpSeconds, gradeSeconds } = given;
  const resources = { memoryMiB, diskMiB, setUpSeconds, gradeSeconds, ...(cpus !== undefined && { cpus }) };
  const own = given.gradeImage !== undefined || RULES[source].hidden.length > 0;
  const machine = (grades: boolean): Machine =>
    machineOf({ resources, sandboxes: { [MAIN]: sandboxOf(opened, grades) } }, instance.id, MAIN);
  const grading = (): Grading => ({
    instance,
    plan: planOf(opened),
    parser: given.logParser ?? parserOf(instance),
    evalType: given.evalType ?? instance.evalType ?? evalTypeOf(repo),
    machine: machine(true),
    own,
    seconds: gradeSeconds,
  });
  return {
    family: repo,
    messages: [openingMessage(instance, workdir, given.hints)],
    tools: given.tools,
    /** A recipe's files are read when they are needed, and not kept: they are some megabytes. */
    get sandboxes() {
      return { [MAIN]: sandboxOf(opened, false) };
    },
    gradedIn: 'fresh',
    resources,
    collect: (ctx) => collectPatch(ctx, machine(false), instance.baseCommit),
    grade: (ctx, work) => gradePatch(ctx, work, grading()),
    ...(gold && { oracle: async () => await Promise.resolve(goldMessages(gold, workdir)) }),
  };
}

export const sweBench: Environment<Options> = {
  name: 'swe_bench',
  options: schema,

  async open(given, io) {
    const recipes = given.recipe === undefined ? undefined : io.path('recipe', given.recipe);
    const assets = given.assets === undefined ? undefined : io.path('assets', given.assets);
    const read = instanceSchema(given.source, given);
    const open = (instance: Instance): Task => {
      checkAssets(assets, instance);
      return taskOf({
        instance,
        given,
        recipe: recipes === undefined ? undefined : join(recipes, instance.id),
        assets,
        workdir: given.workdir ?? RULES[instance.source].workdir,
      });
    };
    return await openRecords(given, io, read, open, ({ id }) => id);
  },
};
