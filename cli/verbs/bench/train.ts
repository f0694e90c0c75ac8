/** `longhaul bench train`: training against PyTorch. */

import { BENCH_MODELS } from '../../../benchmarks/engine/bench-models.ts';
import { benchTrain } from '../../../benchmarks/engine/train.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';
import { type EngineFlags, perModel } from './engine-options.ts';

interface TrainFlags extends Omit<EngineFlags, 'prompt'> {
  readonly gradientCheckpointing?: true;
}

async function train(options: TrainFlags, context: VerbContext): Promise<Outcome> {
  const mebi = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const document = await perModel(options.model, (model) =>
    benchTrain({
      model,
      batch: wholeNumber('--batch', options.batch, 1),
      sequenceTokens: wholeNumber('--tokens', options.tokens, 2),
      rounds: wholeNumber('--rounds', options.rounds, 1),
      gradientCheckpointing: options.gradientCheckpointing === true,
      note: context.note,
    }),
  );
  for (const {
    model,
    batch,
    tokensPerSecond,
    peakBytes,
    peer,
    ratio,
    processorSecondsPerStep,
    processorRatio,
  } of document.models) {
    context.say(
      `${model}, batch ${batch}: ${tokensPerSecond.toFixed(0)} tokens/s, ${peer.tokensPerSecond.toFixed(0)} by ` +
        `${peer.name}: ${ratio.toFixed(2)} ×`,
    );
    context.say(
      `  processor ${processorSecondsPerStep.toFixed(2)} s a step, ` +
        `the peer ${peer.processorSecondsPerStep.toFixed(2)} s: ${processorRatio.toFixed(2)} ×`,
    );
    context.say(`  peak memory ${mebi(peakBytes)}, the peer ${mebi(peer.peakBytes)}`);
  }
  return { document };
}

export const trainBench: Verb = {
  define(command, run) {
    command
      .command('train')
      .description('tokens a second of optimizer steps, against PyTorch eager')
      .option('--model <name>', `${BENCH_MODELS.join(', ')} or all`, 'all')
      .option('--batch <n>', 'sequences of a step', '16')
      .option('--tokens <n>', 'tokens of each sequence', '256')
      .option('--rounds <n>', 'steps to measure, in turns with the peer', '8')
      .option('--gradient-checkpointing', 'recompute layers in the backward pass, on both sides')
      .action((options: TrainFlags) => run((context) => train(options, context)));
  },
};
