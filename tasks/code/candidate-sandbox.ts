/**
 * Runs a policy's code in a fresh sandbox, and says what it gave. A run that is cut off, so that it says nothing, is
 * never a reason to leave the work ungraded: a control without the code runs next. If the control is cut off too, the
 * grader has failed. If not, the code runs once more, and if it is cut off again, it is at fault.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import type { Verdict } from '../../protocol/stages.ts';
import { isTooDeep } from '../../protocol/written-json.ts';
import {
  type Sandbox,
  type SandboxFile,
  SandboxLost,
  type SandboxProvider,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';

/** Where code is run, and with which bounds. */
export interface Bounds {
  /** For one test; by the clock, without the time for which the machine gave it no processor. */
  readonly seconds: number;
  readonly memoryMiB: number;
  /** The sandbox's image. Absent: the worker's own. */
  readonly image?: string | undefined;
}

/** One test with standard input, or one list of calls, for `runner.py`. */
export type Job = { readonly mostBytes: number } & (
  | { readonly kind: 'stdin'; readonly source: string; readonly inputs: readonly string[] }
  | {
      readonly kind: 'calls';
      /** The first that compiles is run. */
      readonly sources: readonly string[];
      /** Their `__name__`. Absent: `answer`. */
      readonly name?: string;
      /** True: they see what LiveCodeBench imports. */
      readonly prelude: boolean;
      /** True: `seconds` are for each call. False: for all of them together. */
      readonly each: boolean;
    }
);

/** A line that the runner printed. The policy's code can print others in its place: they only say what it gave. */
export type Line = Readonly<Record<string, unknown>>;

/** The run ended without saying how its tests ended. */
export class CutOff extends Error {
  override readonly name = 'CutOff';
}

/** The reward of code that is wrong. */
export const zero = (reason: string): Verdict => ({ code: 'graded', reward: 0, passed: false, reason });

const PROGRAMS = join(packageRoot, 'tasks/code/programs');
/** The folder of the programs in the sandbox. */
export const HERE = '/tmp/run';
/** How often a test's time by the clock may pass while the machine gives it no processor. */
const PATIENCE = 5;
const TTL_SECONDS = 900;
const OUTPUT_BYTES = 48 << 20;

export function programs(...names: string[]): SandboxFile[] {
  return names.map((name) => ({ path: `${HERE}/${name}`, content: readFileSync(join(PROGRAMS, name), 'utf8') }));
}

export async function inFreshSandbox<T>(
  provider: SandboxProvider,
  id: string,
  { memoryMiB, image }: Pick<Bounds, 'memoryMiB' | 'image'>,
  files: readonly SandboxFile[],
  work: (sandbox: Sandbox) => Promise<T>,
): Promise<T> {
  const limits = { memoryMiB, processes: 64, diskMiB: 256 };
  const spec = {
    id,
    workdir: HERE,
    files,
    env: {},
    limits,
    ttlSeconds: TTL_SECONDS,
    ...(image !== undefined && { image }),
  };
  try {
    const sandbox = await provider.create(spec);
    try {
      return await work(sandbox);
    } finally {
      sandbox.close();
    }
  } finally {
    await provider.destroy(id);
  }
}

function linesIn(output: string): Line[] {
  return output.split('\n').flatMap((line) => {
    if (!line.startsWith('{')) return [];
    try {
      return [JSON.parse(line) as Line];
    } catch {
      return [];
    }
  });
}

/** A sandbox with a policy's code. */
export interface Candidate {
  /** Runs tests `first` to `last`, the last not included. Errors: `CutOff`; `SandboxLost`, `SandboxUnavailable`. */
  run(first?: number, last?: number): Promise<readonly Line[]>;
  /** Writes the calls that the next `run` makes. */
  calls(calls: readonly unknown[]): Promise<void>;
}

/** Printed before any of the policy's code can run. */
const START = `command -v python3 >/dev/null || { echo missing; exit 0; }; echo ready`;

/** The image has no Python: no other machine of the kind would help. */
export class NoPython extends Error {
  override readonly name = 'NoPython';

  constructor(where: string) {
    super(`there is no python3 in ${where}: set the option image to an image that has it`);
  }
}

function candidateIn(sandbox: Sandbox, { seconds, image }: Bounds): Candidate {
  let made = 0;
  const callId = () => `${sandbox.id}/${(made += 1)}`;
  return {
    async run(first = 0, last = 1) {
      const result = await sandbox.exec({
        callId: callId(),
        command: `${START}; exec python3 -I -B ${HERE}/runner.py ${HERE}/job.json ${first} ${last}`,
        timeoutMs: ((last - first) * seconds * PATIENCE + 60) * 1000,
        outputLimit: OUTPUT_BYTES,
        alone: true,
      });
      if (result.output.startsWith('missing\n')) throw new NoPython(image ?? "the worker's sandboxes");
      const lines = linesIn(result.output);
      if (lines.some((line) => line['done'] === true) && !lines.some((line) => line['ended'] === 'starved'))
        return lines;
      if (result.timedOut) throw new CutOff('not in time');
      if (result.outOfMemory) throw new CutOff('out of memory');
      throw new CutOff(result.signal ?? `exit code ${result.exitCode ?? 'unknown'}`);
    },
    async calls(calls) {
      const content = Buffer.from(JSON.stringify(calls));
      await sandbox.write({ callId: callId(), path: `${HERE}/calls.json`, content, note: 'calls' });
    },
  };
}

function filesOf(job: Job, { seconds }: Bounds): SandboxFile[] {
  const { kind, mostBytes } = job;
  const settings = { kind, mostBytes, seconds, mostSeconds: seconds * PATIENCE };
  const file = (name: string, content: string) => ({ path: `${HERE}/${name}`, content });
  if (job.kind === 'stdin')
    return [
      ...programs('runner.py', 'solve_stdin.py'),
      file('source.py', job.source),
      file('job.json', JSON.stringify({ ...settings, inputs: job.inputs })),
    ];
  return [
    ...programs('runner.py', 'candidate.py', 'typed_values.py', 'solve_stdin.py'),
    file('sources.json', JSON.stringify({ sources: job.sources, prelude: job.prelude, name: job.name ?? 'answer' })),
    file('calls.json', '[]'),
    file('job.json', JSON.stringify({ ...settings, each: job.each })),
  ];
}

const CONTROL: Job = { kind: 'stdin', source: 'print(1)', inputs: [''], mostBytes: 1 << 16 };

function noPython(error: unknown): Verdict {
  if (error instanceof NoPython) return { code: 'grader-failed', reason: error.message };
  throw error;
}

/** `work`'s verdict on the code of `job`. It may be called twice. Errors: those of `work`, but no `CutOff`. */
export async function gradeCandidate(
  job: Job,
  bounds: Bounds,
  provider: SandboxProvider,
  id: string,
  work: (candidate: Candidate) => Promise<Verdict>,
): Promise<Verdict> {
  const run = <T>(name: string, of: Job, next: (candidate: Candidate) => Promise<T>): Promise<T | CutOff> =>
    inFreshSandbox(provider, name, bounds, filesOf(of, bounds), (sandbox) => next(candidateIn(sandbox, bounds))).catch(
      (error: unknown) => {
        if (error instanceof CutOff) return error;
        if (error instanceof SandboxLost || error instanceof SandboxUnavailable) return new CutOff(error.message);
        throw error;
      },
    );
  let cause = '';
  for (const again of ['', '-again']) {
    const verdict = await run(`${id}${again}`, job, work).catch(noPython);
    if (!(verdict instanceof CutOff)) return verdict;
    cause = verdict.message;
    const control = await run(`${id}${again}-control`, CONTROL, (candidate) => candidate.run());
    const why =
      control instanceof CutOff ? control.message : control.some(({ output }) => output === '1\n') ? '' : 'no answer';
    if (why !== '')
      return {
        code: 'grader-failed',
        reason: `the code was cut off (${cause}), and so was its control without it (${why})`,
      };
  }
  return zero(`the code was cut off twice (${cause}), and its control never was`);
}

/** A value that the policy may have written: not every one has a text of its own. */
const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing'));

/** In one sentence, why a run did not end well: the line that the runner printed about it. */
export function whyEnded({ ended, code, stderr }: Line, seconds: number): string {
  if (ended === 'late') return `took more than ${seconds} s`;
  if (ended === 'flood') return 'printed too much';
  const last = typeof stderr === 'string' ? (stripLast(stderr) ?? '') : '';
  return (
    'ended with ' +
    `${typeof code === 'number' && code < 0 ? `signal ${-code}` : `exit code ${textOf(code).slice(0, 200)}`}` +
    `${last === '' ? '' : `: ${last}`}`
  );
}

const stripLast = (text: string): string | undefined => text.trim().split('\n').at(-1)?.slice(0, 200);

/** Levels of a value that the policy's process sent. `typed_values.py` sends fewer. */
const MOST_LEVELS = 300;

/** The answers to calls that the policy's process gave, in order, and how it ended. What is malformed is left out. */
export function answersIn(lines: readonly Line[]): { readonly answers: Line[]; readonly end: Line } {
  const answers = lines.flatMap(({ answer }) => {
    if (typeof answer !== 'string') return [];
    try {
      const value = JSON.parse(answer) as unknown;
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
      return isTooDeep(value, MOST_LEVELS) ? [] : [value as Line];
    } catch {
      return [];
    }
  });
  return { answers, end: lines.find(({ ended }) => ended !== undefined) ?? {} };
}

/** The exception that a call raised; `undefined` if it returned. */
export const errorIn = (answer: Line | undefined): string | undefined =>
  Array.isArray(answer?.['error'])
    ? `${textOf(answer['error'][0]).slice(0, 200)}: ${textOf(answer['message']).slice(0, 200)}`
    : undefined;
