/** `longhaul bench batch`: one large batch beside a small one. */

import { benchBatch } from '../../../benchmarks/batch.ts';
import { UserInputError } from '../../../client/errors.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface BatchFlags {
  readonly rollouts: string;
  readonly against: string;
  readonly turns: string;
  readonly type: string;
  readonly width: string;
}

const DISPATCHERS = ['batch', 'bounded', 'pipeline'] as const;

async function batch(options: BatchFlags, context: VerbContext): Promise<Outcome> {
  const type = DISPATCHERS.find((name) => name === options.type);
  if (type === undefined) throw new UserInputError('--type', options.type, `give one of ${DISPATCHERS.join(', ')}`);
  const sizes = [wholeNumber('--against', options.against, 1), wholeNumber('--rollouts', options.rollouts, 1)];
  const [turns, width] = [wholeNumber('--turns', options.turns, 1), wholeNumber('--width', options.width, 1)];
  const document = await benchBatch({ sizes, turns, type, width, note: context.note });
  for (const {
    rollouts,
    seconds,
    orchestrator,
    histories,
    largestHistory,
    largestPayloadBytes,
    resultBytes,
  } of document.batches) {
    context.say(
      `${rollouts} rollouts, ${type}: ${seconds.toFixed(0)} s, orchestrator ${orchestrator.peakMiB} MiB at most`,
    );
    context.say(
      `  ${histories} histories of the batch, the longest ${largestHistory.events} events, ` +
        `${largestHistory.bytes} bytes`,
    );
    context.say(`  largest payload ${largestPayloadBytes} bytes, result ${resultBytes} bytes`);
  }
  context.say(`memory: ${document.memoryRatio.toFixed(2)} of the smaller batch's`);
  return { document };
}

export const batchBench: Verb = {
  define(command, run) {
    command
      .command('batch')
      .description(
        'one large batch against a small one: memory of the orchestrator, lengths of histories, sizes of payloads',
      )
      .option('--rollouts <n>', 'rollouts of the large batch', '2000')
      .option('--against <n>', 'rollouts of the small one', '200')
      .option('--turns <n>', 'turns of each', '1')
      .option('--type <name>', 'dispatcher: batch, bounded or pipeline', 'pipeline')
      .option('--width <n>', 'maxParallelAgents', '32')
      .action((options: BatchFlags) => run((context) => batch(options, context)));
  },
};
