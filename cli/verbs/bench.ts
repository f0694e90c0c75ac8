/** `longhaul bench NAME`: measures one part against a peer in the same run. */

import { benchOrchestration } from '../bench/orchestration.ts';
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

interface SandboxOptions {
  readonly provider: string;
  readonly sandboxes: string;
  readonly commands: string;
  readonly concurrency: string;
}

const PROVIDERS = ['bubblewrap', 'docker'] as const;

function sandboxLine({ provider, coldStartMs, leaseMs, destroyMs, execMs, execsPerSecond, together }: SandboxBench): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  const alone = `cold start ${ms(coldStartMs)}, lease ${ms(leaseMs)}, end ${ms(destroyMs)}, command ${ms(execMs.p50)} (p95 ${ms(execMs.p95)})`;
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
      .command('sandbox')
      .description('cold start, lease from the warm pool, and shell commands, alone and many at a time')
      .option('--provider <name>', 'bubblewrap, docker or all', 'all')
      .option('--sandboxes <n>', 'sandboxes made one after the other', '10')
      .option('--commands <n>', 'commands in each sandbox', '200')
      .option('--concurrency <n>', 'sandboxes that work at a time', '16')
      .action((options: SandboxOptions) => run((context) => sandbox(options, context)));
  },
};
