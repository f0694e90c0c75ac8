/** `longhaul bench NAME`: measures one part against a peer in the same run. */

import { resolve } from 'node:path';
import { benchAsync } from '../bench/async/async.ts';
import { MIXES, MODES } from '../bench/async/mix.ts';
import { benchBatch } from '../bench/batch.ts';
import { CASES_FILE, type DispatchCase, readCases } from '../bench/dispatch/cases.ts';
import { benchDispatch } from '../bench/dispatch/dispatch.ts';
import { BENCH_MODELS, type BenchModel } from '../bench/engine/bench-models.ts';
import { benchSample } from '../bench/engine/sample.ts';
import { benchTrain } from '../bench/engine/train.ts';
import { benchOrchestration } from '../bench/orchestration.ts';
import { benchPool } from '../bench/pool/pool.ts';
import { benchSandbox, type SandboxBench } from '../bench/sandbox.ts';
import type { Outcome, Verb, VerbContext } from '../verb.ts';
import { UserInputError } from '../errors.ts';

interface Options {
  readonly rollouts: string;
  readonly turns: string;
  readonly concurrency: string;
  readonly blocks: string;
}

function count(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new UserInputError(`--${name}`, text, `give a whole number of at least ${least}`);
}

async function orchestration(options: Options, context: VerbContext): Promise<Outcome> {
  const document = await benchOrchestration({
    rollouts: count('rollouts', options.rollouts, 1),
    turns: count('turns', options.turns, 3),
    concurrency: count('concurrency', options.concurrency, 1),
    blocks: count('blocks', options.blocks, 1),
  });
  context.say(`${document.rollouts} rollouts of ${document.turns} turns`);
  context.say(`  ${document.rolloutsPerSecond.toFixed(1)} rollouts/s, ${document.activitiesPerSecond.toFixed(0)} activities/s`);
  context.say(`  bare: ${document.bare.activitiesPerSecond.toFixed(0)} activities/s; ratio ${document.ratio.toFixed(2)}`);
  context.say(`  a turn: ${document.historyBytesPerTurn} bytes, ${document.historyEventsPerTurn} events of history`);
  return { document };
}

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
  const sizes = [count('against', options.against, 1), count('rollouts', options.rollouts, 1)];
  const [turns, width] = [count('turns', options.turns, 1), count('width', options.width, 1)];
  const document = await benchBatch({ sizes, turns, type, width, note: context.note });
  for (const { rollouts, seconds, orchestrator, histories, largestHistory, largestPayloadBytes, resultBytes } of document.batches) {
    context.say(`${rollouts} rollouts, ${type}: ${seconds.toFixed(0)} s, orchestrator ${orchestrator.peakMiB} MiB at most`);
    context.say(`  ${histories} histories of the batch, the longest ${largestHistory.events} events, ${largestHistory.bytes} bytes`);
    context.say(`  largest payload ${largestPayloadBytes} bytes, result ${resultBytes} bytes`);
  }
  context.say(`memory: ${document.memoryRatio.toFixed(2)} of the smaller batch's`);
  return { document };
}

interface DispatchFlags {
  readonly cases?: string;
  readonly case?: readonly string[];
  readonly scale: string;
}

function chosenCases({ cases, case: names }: DispatchFlags, cwd: string): DispatchCase[] {
  const all = readCases(cases === undefined ? CASES_FILE : resolve(cwd, cases));
  const unknown = names?.find((name) => !all.some((one) => one.name === name));
  if (unknown !== undefined) throw new UserInputError('--case', unknown, `give one of ${all.map(({ name }) => name).join(', ')}`);
  return names ? all.filter(({ name }) => names.includes(name)) : all;
}

async function dispatch(options: DispatchFlags, context: VerbContext): Promise<Outcome> {
  const scale = Number(options.scale);
  if (!(scale > 0 && scale <= 60)) throw new UserInputError('--scale', options.scale, 'give seconds for one unit of a case, above 0 and up to 60');
  const document = await benchDispatch({ cases: chosenCases(options, context.cwd), scale, note: context.note });
  for (const { name, lowerBound, reference, makespan, liveSandboxesPeak, liveSandboxesCap, runUtilisation, speedup } of document.mixes) {
    context.say(name);
    context.say(`  pipeline ${makespan.pipeline.toFixed(1)}, SkyRL's order ${reference.toFixed(1)}, lower bound ${lowerBound.toFixed(1)}`);
    context.say(`  bounded ${makespan.bounded.toFixed(1)} (${speedup.toFixed(2)} × the pipeline), all at once ${makespan.batch.toFixed(1)}`);
    context.say(`  places in agent-run used: pipeline ${runUtilisation.pipeline.toFixed(2)}, SkyRL's order ${runUtilisation.reference.toFixed(2)}, bounded ${runUtilisation.bounded.toFixed(2)}`);
    context.say(`  live sandboxes: pipeline ${liveSandboxesPeak.pipeline} of at most ${liveSandboxesCap}, SkyRL's order ${liveSandboxesPeak.reference}`);
  }
  context.say(`the pipeline takes ${document.pipelineToReference.toFixed(3)} of SkyRL's order in the geometric mean`);
  return { document };
}

interface AsyncFlags {
  readonly mix?: readonly string[];
  readonly maxStalenessSteps: string;
  readonly steps: string;
  readonly scale: string;
}

async function asynchronous(options: AsyncFlags, context: VerbContext): Promise<Outcome> {
  const unknown = options.mix?.find((name) => !MIXES.some((mix) => mix.name === name));
  if (unknown !== undefined) throw new UserInputError('--mix', unknown, `give one of ${MIXES.map(({ name }) => name).join(', ')}`);
  const scale = Number(options.scale);
  if (!(scale >= 0 && scale <= 60)) throw new UserInputError('--scale', options.scale, 'give seconds for one unit of a mix, up to 60, or 0 for the virtual clock alone');
  const document = await benchAsync({
    mixes: MIXES.filter(({ name }) => options.mix?.includes(name) ?? true).map((mix) => ({ ...mix, steps: count('steps', options.steps, 1) })),
    maxStalenessSteps: count('max-staleness-steps', options.maxStalenessSteps, 0),
    scale,
    note: context.note,
  });
  for (const { name, virtualClock, temporal } of document.mixes) {
    const line = (by: Record<(typeof MODES)[number], { makespan: number }> & { speedup: number }) =>
      `${MODES.map((mode) => `${mode} ${by[mode].makespan.toFixed(0)}`).join(', ')}: async ${by.speedup.toFixed(2)} × as fast as sync`;
    context.say(name);
    context.say(`  virtual clock: ${line(virtualClock)}; staleness ${virtualClock.async.staleness.mean.toFixed(2)} steps, at most ${virtualClock.async.staleness.max}`);
    if (temporal) context.say(`  on Temporal: ${line(temporal)}`);
  }
  return { document };
}

interface SandboxOptions {
  readonly provider: string;
  readonly sandboxes: string;
  readonly commands: string;
  readonly concurrency: string;
}

const PROVIDERS = ['bubblewrap', 'docker'] as const;

function sandboxLine({ provider, coldStartMs, leaseMs, destroyMs, execMs, digestMs, execsPerSecond, together }: SandboxBench): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  const alone = `cold start ${ms(coldStartMs)}, lease ${ms(leaseMs)}, end ${ms(destroyMs)}, command ${ms(execMs.p50)} (p95 ${ms(execMs.p95)}), digest ${ms(digestMs)}`;
  const many = `${together.concurrency} at a time: all made in ${ms(together.startedMs)}, ${execsPerSecond.toFixed(0)} commands/s, slowest ${ms(together.execMs.max)}`;
  return `${provider}: ${alone}\n  ${many}`;
}

async function sandbox(options: SandboxOptions, context: VerbContext): Promise<Outcome> {
  const named = PROVIDERS.filter((name) => options.provider === 'all' || options.provider === name);
  if (named.length === 0) throw new UserInputError('--provider', options.provider, `give one of ${PROVIDERS.join(', ')}, all`);
  const document = await benchSandbox({
    providers: named,
    sandboxes: count('sandboxes', options.sandboxes, 1),
    commands: count('commands', options.commands, 1),
    concurrency: count('concurrency', options.concurrency, 1),
  });
  for (const each of document.providers) context.say(sandboxLine(each));
  for (const { provider, reason } of document.absent) context.say(`${provider}: not measured, ${reason}`);
  return { document };
}

interface EngineFlags {
  readonly model: string;
  readonly batch: string;
  readonly tokens: string;
  readonly prompt: string;
  readonly rounds: string;
}

function benchModels(name: string): BenchModel[] {
  const named = BENCH_MODELS.filter((one) => name === 'all' || one === name);
  if (named.length === 0) throw new UserInputError('--model', name, `give one of ${BENCH_MODELS.join(', ')}, all`);
  return named;
}

/** One model's numbers at the top, and those of all in `models`. */
async function perModel<T extends { readonly model: string }>(name: string, measure: (model: BenchModel) => Promise<T>) {
  const models: T[] = [];
  for (const model of benchModels(name)) models.push(await measure(model));
  const [first] = models;
  if (first === undefined) throw new TypeError('there is no model');
  return { ...first, models };
}

async function sample(options: EngineFlags, context: VerbContext): Promise<Outcome> {
  const document = await perModel(options.model, (model) =>
    benchSample({
      model,
      batch: count('batch', options.batch, 1),
      promptTokens: count('prompt', options.prompt, 1),
      newTokens: count('tokens', options.tokens, 1),
      rounds: count('rounds', options.rounds, 1),
      note: context.note,
    }),
  );
  for (const { model, batch, tokensPerSecond, peer, ratio } of document.models)
    context.say(`${model}, batch ${batch}: ${tokensPerSecond.toFixed(0)} tokens/s, ${peer.tokensPerSecond.toFixed(0)} by ${peer.name}: ${ratio.toFixed(2)} ×`);
  return { document };
}

interface TrainFlags extends Omit<EngineFlags, 'prompt'> {
  readonly gradientCheckpointing?: true;
}

async function train(options: TrainFlags, context: VerbContext): Promise<Outcome> {
  const mebi = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const document = await perModel(options.model, (model) =>
    benchTrain({
      model,
      batch: count('batch', options.batch, 1),
      sequenceTokens: count('tokens', options.tokens, 2),
      rounds: count('rounds', options.rounds, 1),
      gradientCheckpointing: options.gradientCheckpointing === true,
      note: context.note,
    }),
  );
  for (const { model, batch, tokensPerSecond, peakBytes, peer, ratio, processorSecondsPerStep, processorRatio } of document.models) {
    context.say(`${model}, batch ${batch}: ${tokensPerSecond.toFixed(0)} tokens/s, ${peer.tokensPerSecond.toFixed(0)} by ${peer.name}: ${ratio.toFixed(2)} ×`);
    context.say(`  processor ${processorSecondsPerStep.toFixed(2)} s a step, ${peer.processorSecondsPerStep.toFixed(2)} there: ${processorRatio.toFixed(2)} ×`);
    context.say(`  peak memory ${mebi(peakBytes)}, ${mebi(peer.peakBytes)} there`);
  }
  return { document };
}

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
    workers: count('workers', options.workers, 1),
    rollouts: count('rollouts', options.rollouts, 1),
    tokens: count('tokens', options.tokens, 8),
    epochs: count('epochs', options.epochs, 1),
    minibatches: count('minibatches', options.minibatches, 1),
    rounds: count('rounds', options.rounds, 1),
    note: context.note,
  });
  const { seconds, processorSeconds: spent, speedup, workers, threads, cores, identical, identicalWithAllThreads } = document;
  context.say(`${document.model}, ${document.rollouts} rollouts: one worker with ${cores} threads ${seconds.one.toFixed(2)} s, ${workers} with ${threads} each ${seconds.pool.toFixed(2)} s: ${speedup.toFixed(2)} × as fast`);
  context.say(`  processor seconds: ${spent.one.toFixed(2)}, and ${spent.pool.toFixed(2)} by all ${workers}`);
  context.say(`  one worker in ${workers} shards: ${seconds.oneInShards.toFixed(2)} s; bits of one worker: ${identical ? 'the same' : 'OTHERS'} with as many threads as each of them has, ${identicalWithAllThreads ? 'the same' : 'others'} with all`);
  return { document, exitCode: identical ? 0 : 1 };
}

interface DurabilityFlags {
  readonly blocks: string;
  readonly steps: string;
  readonly tasks: string;
}

async function durability(options: DurabilityFlags, context: VerbContext): Promise<Outcome> {
  const asked = { blocks: count('blocks', options.blocks, 1), steps: count('steps', options.steps, 1), tasks: count('tasks', options.tasks, 1) };
  // Only where it is used: the engine takes as long to load as other benches to begin.
  const { benchDurability } = await import('../bench/durability/durability.ts');
  const document = await benchDurability(asked, context.note);
  const { durable, inMemory } = document.stepsPerSecond;
  context.say(`${durable.toFixed(3)} steps/s durable, ${inMemory.toFixed(3)} in memory; ratio ${document.ratio.toFixed(2)}`);
  context.say(document.identical ? '  every block ended with the same weights' : '  blocks ended with different weights');
  return { document };
}

export const benchVerb: Verb = {
  define(command, run) {
    command
      .command('orchestration')
      .description('the real reducer, store and search attributes; only model and sandbox are empty')
      .option('--rollouts <n>', 'rollouts to measure', '240')
      .option('--turns <n>', 'turns of each', '4')
      .option('--concurrency <n>', 'rollouts in flight', '32')
      .option('--blocks <n>', 'alternating blocks', '6')
      .action((options: Options) => run((context) => orchestration(options, context)));
    command
      .command('batch')
      .description('one large batch against a small one: memory of the orchestrator, lengths of histories, sizes of payloads')
      .option('--rollouts <n>', 'rollouts of the large batch', '2000')
      .option('--against <n>', 'rollouts of the small one', '200')
      .option('--turns <n>', 'turns of each', '1')
      .option('--type <name>', 'dispatcher: batch, bounded or pipeline', 'pipeline')
      .option('--width <n>', 'maxParallelAgents', '32')
      .action((options: BatchFlags) => run((context) => batch(options, context)));
    command
      .command('dispatch')
      .description("makespans of the dispatchers and of SkyRL-Agent's order: real workflows on Temporal, stages that sleep")
      .option('--cases <file>', 'cases of one\'s own: names, widths and stage times')
      .option('--case <name...>', 'of the cases, these only')
      .option('--scale <seconds>', 'seconds for one unit of a case', '0.25')
      .action((options: DispatchFlags) => run((context) => dispatch(options, context)));
    command
      .command('durability')
      .description('the same training steps with Temporal and records on disk, and in memory')
      .option('--blocks <n>', 'alternating blocks of each kind', '4')
      .option('--steps <n>', 'training steps of a block', '3')
      .option('--tasks <n>', 'groups of four rollouts in a step', '7')
      .action((options: DurabilityFlags) => run((context) => durability(options, context)));
    command
      .command('async')
      .description('how long a run takes in each mode of training, with rollouts of long tails: on a virtual clock, and through real workflows')
      .option('--mix <name...>', 'of the mixes, these only')
      .option('--max-staleness-steps <n>', 'bound of the asynchronous mode', '4')
      .option('--steps <n>', 'steps of a run', '20')
      .option('--scale <seconds>', 'seconds for one unit of a mix through Temporal; 0: the virtual clock alone', '0')
      .action((options: AsyncFlags) => run((context) => asynchronous(options, context)));
    command
      .command('sandbox')
      .description('cold start, lease from the warm pool, and shell commands, alone and many at a time')
      .option('--provider <name>', 'bubblewrap, docker or all', 'all')
      .option('--sandboxes <n>', 'sandboxes made one after the other', '10')
      .option('--commands <n>', 'commands in each sandbox', '200')
      .option('--concurrency <n>', 'sandboxes that work at a time', '16')
      .action((options: SandboxOptions) => run((context) => sandbox(options, context)));
    command
      .command('sample')
      .description("tokens a second that the engine samples, against transformers' generate on PyTorch")
      .option('--model <name>', `${BENCH_MODELS.join(', ')} or all`, 'all')
      .option('--batch <n>', 'prompts at once', '32')
      .option('--prompt <n>', 'tokens of each prompt', '64')
      .option('--tokens <n>', 'tokens sampled for each', '64')
      .option('--rounds <n>', 'rounds to measure, in turns with the peer', '5')
      .action((options: EngineFlags) => run((context) => sample(options, context)));
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
    command
      .command('train')
      .description('tokens a second of optimizer steps, against PyTorch eager')
      .option('--model <name>', `${BENCH_MODELS.join(', ')} or all`, 'all')
      .option('--batch <n>', 'sequences of a step', '16')
      .option('--tokens <n>', 'tokens of each sequence', '256')
      .option('--rounds <n>', 'steps to measure, in turns with the peer', '8')
      .option('--gradient-checkpointing', 'layers are computed again in the backward pass, on both sides')
      .action((options: TrainFlags) => run((context) => train(options, context)));
  },
};
