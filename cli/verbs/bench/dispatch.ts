/** `longhaul bench dispatch`: dispatchers against SkyRL-Agent's order. */

import { CASES_FILE, type DispatchCase, readCases } from '../../../benchmarks/dispatch/cases.ts';
import { benchDispatch } from '../../../benchmarks/dispatch/dispatch.ts';
import { UserInputError } from '../../../client/errors.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';
import { resolve } from 'node:path';

interface DispatchFlags {
  readonly cases?: string;
  readonly case?: readonly string[];
  readonly scale: string;
}

function chosenCases({ cases, case: names }: DispatchFlags, cwd: string): DispatchCase[] {
  const all = readCases(cases === undefined ? CASES_FILE : resolve(cwd, cases));
  const unknown = names?.find((name) => !all.some((one) => one.name === name));
  if (unknown !== undefined)
    throw new UserInputError('--case', unknown, `give one of ${all.map(({ name }) => name).join(', ')}`);
  return names ? all.filter(({ name }) => names.includes(name)) : all;
}

async function dispatch(options: DispatchFlags, context: VerbContext): Promise<Outcome> {
  const scale = Number(options.scale);
  if (!(scale > 0 && scale <= 60))
    throw new UserInputError('--scale', options.scale, 'give seconds for one unit of a case, above 0 and up to 60');
  const document = await benchDispatch({ cases: chosenCases(options, context.cwd), scale, note: context.note });
  for (const {
    name,
    lowerBound,
    reference,
    makespan,
    liveSandboxesPeak,
    liveSandboxesCap,
    runUtilisation,
    speedup,
  } of document.mixes) {
    context.say(name);
    context.say(
      `  pipeline ${makespan.pipeline.toFixed(1)}, SkyRL's order ${reference.toFixed(1)}, ` +
        `lower bound ${lowerBound.toFixed(1)}`,
    );
    context.say(
      `  bounded ${makespan.bounded.toFixed(1)} (${speedup.toFixed(2)} × the pipeline), ` +
        `all at once ${makespan.batch.toFixed(1)}`,
    );
    context.say(
      `  places in agent-run used: pipeline ${runUtilisation.pipeline.toFixed(2)}, ` +
        `SkyRL's order ${runUtilisation.reference.toFixed(2)}, bounded ${runUtilisation.bounded.toFixed(2)}`,
    );
    context.say(
      `  live sandboxes: pipeline ${liveSandboxesPeak.pipeline} of at most ${liveSandboxesCap}, ` +
        `SkyRL's order ${liveSandboxesPeak.reference}`,
    );
  }
  context.say(`the pipeline takes ${document.pipelineToReference.toFixed(3)} of SkyRL's order in the geometric mean`);
  return { document };
}

export const dispatchBench: Verb = {
  define(command, run) {
    command
      .command('dispatch')
      .description(
        "makespans of the dispatchers and of SkyRL-Agent's order: real workflows on Temporal, stages that sleep",
      )
      .option('--cases <file>', 'file with your cases: names, widths and stage times')
      .option('--case <name...>', 'only these cases')
      .option('--scale <seconds>', 'seconds for one unit of a case', '0.25')
      .action((options: DispatchFlags) => run((context) => dispatch(options, context)));
  },
};
