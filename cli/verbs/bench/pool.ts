/** `longhaul bench pool`: updates by several workers against one. */

import { BENCH_MODELS } from '../../../benchmarks/engine/bench-models.ts';
import { benchPool } from '../../../benchmarks/pool.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';
import { benchModels } from './engine-options.ts';

interface PoolFlags {
  readonly model: string;
  readonly workers: string;
  readonly rollouts: string;
  readonly tokens: string;
  readonly epochs: string;
  readonly minibatches: string;
  readonly rounds: string;
}

async function pool(options: PoolFlags, context: VerbContext): Promise<Outcome> {
  const [model = 'starter'] = benchModels(options.model);
  const document = await benchPool({
    model,
    workers: wholeNumber('--workers', options.workers, 1),
    rollouts: wholeNumber('--rollouts', options.rollouts, 1),
    tokens: wholeNumber('--tokens', options.tokens, 8),
    epochs: wholeNumber('--epochs', options.epochs, 1),
    minibatches: wholeNumber('--minibatches', options.minibatches, 1),
    rounds: wholeNumber('--rounds', options.rounds, 1),
    note: context.note,
  });
  const {
    seconds,
    processorSeconds: spent,
    speedup,
    workers,
    threads,
    cores,
    identical,
    identicalWithAllThreads,
  } = document;
  context.say(
    `${document.model}, ${document.rollouts} rollouts: ` +
      `one worker with ${cores} threads ${seconds.one.toFixed(2)} s, ${workers} with ${threads} each ` +
      `${seconds.pool.toFixed(2)} s: ${speedup.toFixed(2)} × as fast`,
  );
  context.say(`  processor seconds: ${spent.one.toFixed(2)}, and ${spent.pool.toFixed(2)} by all ${workers}`);
  context.say(
    `  one worker in ${workers} shards: ${seconds.oneInShards.toFixed(2)} s; bits of one worker: ` +
      `${identical ? 'the same' : 'DIFFERENT'} with as many threads as each of them has, ` +
      `${identicalWithAllThreads ? 'the same' : 'different'} with all`,
  );
  return { document, exitCode: identical ? 0 : 1 };
}

export const poolBench: Verb = {
  define(command, run) {
    command
      .command('pool')
      .description('an update by several workers that share the cores, against one worker that has them all')
      .option('--model <name>', BENCH_MODELS.join(', '), 'starter')
      .option('--workers <n>', 'workers, each with its share of the threads', '2')
      .option('--rollouts <n>', 'rollouts of the update', '64')
      .option('--tokens <n>', 'their mean length', '256')
      .option('--epochs <n>', 'passes over all data', '2')
      .option('--minibatches <n>', 'optimizer steps of an epoch', '1')
      .option('--rounds <n>', 'updates of each kind, in turns', '5')
      .action((options: PoolFlags) => run((context) => pool(options, context)));
  },
};
