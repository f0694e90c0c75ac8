/**
 * The environment `python`: environments that are written in Python, as they are. A subclass of SkyRL-Gym's BaseTextEnv
 * reads each message of the policy by its `step`; its rewards and metrics are the verdict. Environments of `verifiers`
 * answer messages, and their rubrics are the verdict.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, EnvironmentIo, Task, TaskContext } from '../environment.ts';
import { type CodeFile, codeIn, digestOfCode } from './code-folder.ts';
import type { Answer, Episode } from './episode.ts';
import { adapterFiles, HERE, InSandbox } from './in-sandbox.ts';
import { OnWorker, type Player, type Recipe } from './on-worker.ts';
import { PythonFailed, PythonTimedOut } from './python-process.ts';

const spec = z
  .string()
  .regex(/^[A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?$/, "give module:Class, or an id of SkyRL-Gym's registry");

const options = z.strictObject({
  ...recordOptions,
  /** Absent: each record's `env_class`. */
  env: spec.optional(),
  /** The constructor's `env_config`; the arguments of a `load_environment`. */
  config: z.record(z.string(), z.unknown()).default({}),
  /** The interpreter. On the worker: a path of a virtual environment's. In a sandbox: a program there. */
  python: z.string().min(1).optional(),
  /** Folders of modules, before those of the interpreter. */
  path: z.array(z.string().min(1)).default([]),
  /** Goes to the environment as `max_turns`, in place of the record's. */
  maxTurns: z.int().min(1).optional(),
  /** For each call. */
  seconds: z.number().min(0.1).max(86_400).default(60),
  /** Of an episode: the sum of its rewards, as in SkyRL, or its last one. */
  reward: z.enum(['sum', 'last']).default('sum'),
  /** How an object is made again: by its actions, or from a pickle in each turn's record. */
  replay: z.enum(['actions', 'pickle']).default('actions'),
  /** True: in the task's sandbox, a process for each step. False: on the worker, one process for all. */
  sandbox: z.boolean().default(false),
  /** Of the sandbox; it must have Python and the environment's packages. */
  image: z.string().min(1).optional(),
  memoryMiB: z
    .int()
    .min(64)
    .max(1 << 20)
    .default(1024),
});

type Options = z.infer<typeof options>;

const message = z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() });

const record = z.looseObject({
  prompt: z.union([z.string().min(1), z.array(message).min(1)]),
  env_class: spec.optional(),
});

type Row = z.infer<typeof record>;

/** The folders of modules, as the sandbox has them. */
const folderInSandbox = (i: number): string => `${HERE}/path-${i}`;

function recipeOf({ prompt, env_class: own, ...extras }: Row, { env, config, maxTurns, replay }: Options): Recipe {
  return {
    env: env ?? own ?? '',
    config,
    extras: { ...extras, ...(maxTurns !== undefined && { max_turns: maxTurns }) },
    prompt: typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt,
    pickled: replay === 'pickle',
  };
}

function verdictOn({ rewards, metrics, done }: Episode, { reward: rule }: Options) {
  const reward = rule === 'last' ? (rewards.at(-1) ?? 0) : rewards.reduce((sum, one) => sum + one, 0);
  const reason =
    `${rewards.length} step${rewards.length === 1 ? '' : 's'}${done ? '' : ', not done'}: ` + `${rewards.join(', ')}`;
  return { code: 'graded' as const, reward, passed: reward > 0, reason: reason.slice(0, 500), metrics };
}

/** The attempt that a function of it belongs to. */
const ownerOf = ({ id }: TaskContext): string => id.replace(/\/(?:\d+\/step|start)$/, '');

function taskOf(
  row: Row,
  given: Options,
  playerOf: (ctx: TaskContext) => Player,
  code: ReadonlyArray<readonly CodeFile[]>,
): Task {
  const recipe = recipeOf(row, given);
  const { sandbox, image, memoryMiB, seconds } = given;
  const files = () => [
    ...adapterFiles(),
    ...code.flatMap((folder, i) =>
      folder.map(({ path, content }) => ({ path: `${folderInSandbox(i)}/${path}`, content: new Uint8Array(content) })),
    ),
  ];
  const limits = { memoryMiB };
  const stepped = ({ episode, answer }: { readonly episode: Episode; readonly answer: Answer }) => ({
    state: episode,
    messages: answer.messages,
    done: episode.done,
    reward: answer.reward,
    metrics: answer.metrics,
  });
  return {
    messages: recipe.prompt as readonly Message[],
    tools: [],
    agent: { type: 'text' },
    gradedIn: 'none',
    ...(sandbox && {
      sandboxes: { main: { workdir: HERE, files: files(), env: {}, limits, ...(image !== undefined && { image }) } },
    }),
    resources: { setUpSeconds: Math.min(14_400, seconds * 4 + 60) },
    async start(ctx) {
      const { episode, answer } = await playerOf(ctx).start(recipe, ownerOf(ctx));
      return { state: episode, messages: answer.messages };
    },
    step: async (ctx, state, action) =>
      stepped(await playerOf(ctx).step(recipe, ownerOf(ctx), state as Episode, action)),
    grade: async (_ctx, { state }) => await Promise.resolve(verdictOn(state as Episode, given)),
  };
}

/** SkyRL's data have the number in `extra_info`. */
function labelOf({ uid, extra_info: extra }: Row): string {
  const label = uid ?? (extra as { readonly index?: unknown } | undefined)?.index;
  return typeof label === 'string' || typeof label === 'number' ? String(label) : '';
}

/** The interpreter on the worker, and the folders that it imports from. Errors: `UserInputError`. */
function interpreterOf({ python, path }: Options, io: EnvironmentIo) {
  if (python === undefined && path.length === 0)
    throw new UserInputError(
      'task.options.python',
      python,
      "give the path of the environment's interpreter (python: venv/bin/python), or folders of modules (path)",
    );
  const codeAt = (name: string, at: string): string => {
    if (io.code !== undefined) return io.code(name, at);
    throw new UserInputError(`task.options.${name}`, at, 'run it in a sandbox (sandbox: true): no code is run here');
  };
  const folders = path.map((folder, i) => codeAt(`path.${i}`, folder));
  return { python: python === undefined ? 'python3' : codeAt('python', python), path: folders };
}

async function open(given: Options, io: EnvironmentIo) {
  const { sandbox, image, env, config, data, fields, seconds, path, python } = given;
  if (image !== undefined && !sandbox)
    throw new UserInputError('task.options.image', image, 'leave it out, or give sandbox: true');
  const interpreter = sandbox
    ? { python: python ?? 'python3', path: path.map((folder, i) => io.path(`path.${i}`, folder)) }
    : interpreterOf(given, io);
  if (sandbox && !/^[\w./+-]+$/.test(interpreter.python))
    throw new UserInputError('task.options.python', python, 'give the path of a program in the sandbox');
  const code = interpreter.path.map((folder, i) => codeIn(folder, `task.options.path.${i}`));
  const player = new OnWorker(interpreter, seconds);
  const folders = code.map((_, i) => folderInSandbox(i));
  const playerOf = (ctx: TaskContext): Player =>
    sandbox ? new InSandbox(ctx, interpreter.python, folders, seconds) : player;
  const checked = record.refine((row) => env !== undefined || row.env_class !== undefined, {
    path: ['env_class'],
    message: 'it is missing: give it, or the option env',
  });
  const dataset = await openRecords(
    { data, fields },
    io,
    checked,
    (row) => taskOf(row, given, playerOf, code),
    labelOf,
  );
  if (!sandbox && env !== undefined) await player.check(env, config).catch(refused);
  const { seconds: _, ...kept } = given;
  const digest = createHash('sha256')
    .update(JSON.stringify([dataset.digest, kept, digestOfCode(code)]))
    .digest('hex');
  return { ...dataset, digest };
}

/** What cannot be imported, or played, is refused before anything starts. */
function refused(error: unknown): never {
  if (!(error instanceof PythonFailed || error instanceof PythonTimedOut)) throw error;
  throw new UserInputError(
    'task.options.env',
    error.message,
    'give what this interpreter can import and play (options python, path and config)',
  );
}

export const python: Environment<Options> = { name: 'python', options, open };
