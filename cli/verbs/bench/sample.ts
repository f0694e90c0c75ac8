/** `longhaul bench sample`: sampling against transformers. */

import { BENCH_MODELS } from '../../../benchmarks/engine/bench-models.ts';
import { benchSample } from '../../../benchmarks/engine/sample.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';
import { type EngineFlags, perModel } from './engine-options.ts';

async function sample(options: EngineFlags, context: VerbContext): Promise<Outcome> {
  const document = await perModel(options.model, (model) =>
    benchSample({
      model,
      batch: wholeNumber('--batch', options.batch, 1),
      promptTokens: wholeNumber('--prompt', options.prompt, 1),
      newTokens: wholeNumber('--tokens', options.tokens, 1),
      rounds: wholeNumber('--rounds', options.rounds, 1),
      note: context.note,
    }),
  );
  for (const { model, batch, tokensPerSecond, peer, ratio } of document.models)
    context.say(
      `${model}, batch ${batch}: ${tokensPerSecond.toFixed(0)} tokens/s, ${peer.tokensPerSecond.toFixed(0)} by ` +
        `${peer.name}: ${ratio.toFixed(2)} ×`,
    );
  return { document };
}

export const sampleBench: Verb = {
  define(command, run) {
    command
      .command('sample')
      .description("tokens a second that the engine samples, against transformers' generate on PyTorch")
      .option('--model <name>', `${BENCH_MODELS.join(', ')} or all`, 'all')
      .option('--batch <n>', 'prompts at once', '32')
      .option('--prompt <n>', 'tokens of each prompt', '64')
      .option('--tokens <n>', 'tokens sampled for each', '64')
      .option('--rounds <n>', 'rounds to measure, in turns with the peer', '5')
      .action((options: EngineFlags) => run((context) => sample(options, context)));
  },
};
