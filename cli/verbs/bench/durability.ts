/** `longhaul bench durability`: Temporal and records on disk against memory. */

import { goOnAsShipped } from '../../../benchmarks/as-shipped.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface DurabilityFlags {
  readonly blocks: string;
  readonly steps: string;
  readonly tasks: string;
  readonly layers: string;
}

async function durability(options: DurabilityFlags, context: VerbContext): Promise<Outcome> {
  const asked = {
    blocks: wholeNumber('--blocks', options.blocks, 1),
    steps: wholeNumber('--steps', options.steps, 1),
    tasks: wholeNumber('--tasks', options.tasks, 1),
    layers: wholeNumber('--layers', options.layers, 4),
  };
  await goOnAsShipped(context.signal);
  // Loaded here, since the engine is slow to load and other benches do not need it.
  const { benchDurability } = await import('../../../benchmarks/durability/durability.ts');
  const document = await benchDurability(asked, context.note);
  const { durable, inMemory } = document.stepsPerSecond;
  context.say(
    `${durable.toFixed(3)} steps/s durable, ${inMemory.toFixed(3)} in memory; ratio ${document.ratio.toFixed(2)}`,
  );
  context.say(
    document.identical ? '  every block ended with the same weights' : '  blocks ended with different weights',
  );
  return { document };
}

export const durabilityBench: Verb = {
  define(command, run) {
    command
      .command('durability')
      .description('the same training steps with Temporal and records on disk, and in memory')
      .option('--blocks <n>', 'alternating blocks of each kind', '4')
      .option('--steps <n>', 'training steps of a block', '3')
      .option('--tasks <n>', 'groups of four rollouts in a step', '7')
      .option(
        '--layers <n>',
        'layers of the policy: the four of the starter, then layers that cost as much and add nothing at first',
        '4',
      )
      .action((options: DurabilityFlags) => run((context) => durability(options, context)));
  },
};
