/** `longhaul bench orchestration`: what workflows cost beside bare activities. */

import { goOnAsShipped } from '../../../benchmarks/as-shipped.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface Options {
  readonly rollouts: string;
  readonly turns: string;
  readonly concurrency: string;
  readonly blocks: string;
}

async function orchestration(options: Options, context: VerbContext): Promise<Outcome> {
  const asked = {
    rollouts: wholeNumber('--rollouts', options.rollouts, 1),
    turns: wholeNumber('--turns', options.turns, 3),
    concurrency: wholeNumber('--concurrency', options.concurrency, 1),
    blocks: wholeNumber('--blocks', options.blocks, 1),
  };
  await goOnAsShipped(context.signal);
  // Loaded after the line above, which may start this process anew.
  const { benchOrchestration } = await import('../../../benchmarks/orchestration.ts');
  const document = await benchOrchestration(asked);
  context.say(`${document.rollouts} rollouts of ${document.turns} turns`);
  context.say(
    `  ${document.rolloutsPerSecond.toFixed(1)} rollouts/s, ${document.activitiesPerSecond.toFixed(0)} activities/s`,
  );
  context.say(
    `  bare: ${document.bare.activitiesPerSecond.toFixed(0)} activities/s; ratio ${document.ratio.toFixed(2)}`,
  );
  context.say(`  a turn: ${document.historyBytesPerTurn} bytes, ${document.historyEventsPerTurn} events of history`);
  return { document };
}

export const orchestrationBench: Verb = {
  define(command, run) {
    command
      .command('orchestration')
      .description('the real reducer, store and search attributes; only model and sandbox are empty')
      .option('--rollouts <n>', 'rollouts to measure', '240')
      .option('--turns <n>', 'turns of each', '4')
      .option('--concurrency <n>', 'rollouts in flight', '32')
      .option('--blocks <n>', 'alternating blocks', '6')
      .action((options: Options) => run((context) => orchestration(options, context)));
  },
};
