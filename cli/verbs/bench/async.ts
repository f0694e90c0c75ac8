/** `longhaul bench async`: modes of training on rollouts with long tails. */

import { benchAsync } from '../../../benchmarks/async/async.ts';
import { MIXES, MODES } from '../../../benchmarks/async/mix.ts';
import { UserInputError } from '../../../client/errors.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface AsyncFlags {
  readonly mix?: readonly string[];
  readonly maxStalenessSteps: string;
  readonly steps: string;
  readonly scale: string;
}

async function asynchronous(options: AsyncFlags, context: VerbContext): Promise<Outcome> {
  const unknown = options.mix?.find((name) => !MIXES.some((mix) => mix.name === name));
  if (unknown !== undefined)
    throw new UserInputError('--mix', unknown, `give one of ${MIXES.map(({ name }) => name).join(', ')}`);
  const scale = Number(options.scale);
  if (!(scale >= 0 && scale <= 60))
    throw new UserInputError(
      '--scale',
      options.scale,
      'give seconds for one unit of a mix, up to 60, or 0 for the virtual clock only',
    );
  const document = await benchAsync({
    mixes: MIXES.filter(({ name }) => options.mix?.includes(name) ?? true).map((mix) => ({
      ...mix,
      steps: wholeNumber('--steps', options.steps, 1),
    })),
    maxStalenessSteps: wholeNumber('--max-staleness-steps', options.maxStalenessSteps, 0),
    scale,
    note: context.note,
  });
  for (const { name, virtualClock, temporal } of document.mixes) {
    const line = (by: Record<(typeof MODES)[number], { makespan: number }> & { speedup: number }) =>
      `${MODES.map((mode) => `${mode} ${by[mode].makespan.toFixed(0)}`).join(', ')}: ` +
      `async ${by.speedup.toFixed(2)} × as fast as sync`;
    context.say(name);
    context.say(
      `  virtual clock: ${line(virtualClock)}; staleness ${virtualClock.async.staleness.mean.toFixed(2)} ` +
        `steps, at most ${virtualClock.async.staleness.max}`,
    );
    if (temporal) context.say(`  on Temporal: ${line(temporal)}`);
  }
  return { document };
}

export const asyncBench: Verb = {
  define(command, run) {
    command
      .command('async')
      .description(
        'how long a run takes in each mode of training, with long-tailed rollouts: on a virtual clock, ' +
          'and in real workflows',
      )
      .option('--mix <name...>', 'only these mixes')
      .option('--max-staleness-steps <n>', 'bound of the asynchronous mode', '4')
      .option('--steps <n>', 'steps of a run', '20')
      .option('--scale <seconds>', 'seconds for one unit of a mix on Temporal; 0: the virtual clock only', '0')
      .action((options: AsyncFlags) => run((context) => asynchronous(options, context)));
  },
};
