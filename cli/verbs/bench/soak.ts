/** `longhaul bench soak`: memory and sizes of the databases over many steps, or many rollouts. */

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type SoakReport, soakRollouts, soakSteps } from '../../../benchmarks/soak/soak.ts';
import { Interrupted, JobFailed } from '../../../client/errors.ts';
import { table } from '../../terminal-text.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface SoakFlags {
  readonly steps: string;
  readonly rollouts: string;
  readonly out?: string;
}

function show({ unit, done, file, memory, bytesEach }: SoakReport, { say }: VerbContext): void {
  say(`${done} ${unit} (${file}, and its curve beside it)`);
  const rows = Object.entries(memory).map(([name, { early, late, flat }]) => [
    name,
    `${early} MiB`,
    `${late} MiB`,
    flat ? 'flat' : 'GROWS',
  ]);
  for (const line of table([['PROCESS', 'SECOND TENTH', 'LAST TENTH', ''], ...rows])) say(line);
  for (const [name, bytes] of Object.entries(bytesEach))
    say(`database ${name}: ${bytes} bytes for each of the ${unit}`);
}

/** Errors: `JobFailed` if a process's memory grows; `Interrupted`. */
async function soak(flags: SoakFlags, context: VerbContext): Promise<Outcome> {
  const [steps, rollouts] = [wholeNumber('--steps', flags.steps, 0), wholeNumber('--rollouts', flags.rollouts, 0)];
  const dir = flags.out === undefined ? mkdtempSync(join(tmpdir(), 'longhaul-soak-')) : resolve(context.cwd, flags.out);
  const { env, signal, note } = context;
  const reports: SoakReport[] = [];
  try {
    if (steps > 0) reports.push(await soakSteps(steps, { dir, env, signal, note }));
    if (rollouts > 0) reports.push(await soakRollouts(rollouts, { dir, env, signal, note }));
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Interrupted(`interrupted; what was measured so far is in ${dir}`, { cause: error });
  }
  for (const report of reports) show(report, context);
  const document = { dir, soaks: reports };
  const growing = reports.flatMap(({ unit, memory }) =>
    Object.entries(memory).flatMap(([name, { flat }]) => (flat ? [] : [`${name} by ${unit}`])),
  );
  if (growing.length > 0) throw new JobFailed(`memory grows after the first tenth: ${growing.join(', ')}`, document);
  return { document };
}

export const soakBench: Verb = {
  define(command, run) {
    command
      .command('soak')
      .description(
        "a long run: memory of each process and sizes of the databases, by step of the quickstart's job, " +
          'then by rollout of an empty model; fails where memory grows after the first tenth',
      )
      .option('--steps <n>', 'steps; 0: none', '1000')
      .option('--rollouts <n>', 'rollouts; 0: none', '100000')
      .option('--out <dir>', 'folder for JSON lines and curves; default: a new one')
      .action((flags: SoakFlags) => run((context) => soak(flags, context)));
  },
};
