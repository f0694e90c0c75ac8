/** `longhaul bench sandbox`: the times of sandboxes. */

import { benchSandbox, type SandboxBench } from '../../../benchmarks/sandbox.ts';
import { UserInputError } from '../../../client/errors.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface SandboxOptions {
  readonly provider: string;
  readonly sandboxes: string;
  readonly commands: string;
  readonly concurrency: string;
}

const PROVIDERS = ['bubblewrap', 'docker'] as const;

function sandboxLine({
  provider,
  coldStartMs,
  leaseMs,
  destroyMs,
  execMs,
  digestMs,
  execsPerSecond,
  together,
}: SandboxBench): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  const alone =
    `cold start ${ms(coldStartMs)}, lease ${ms(leaseMs)}, end ${ms(destroyMs)}, command ${ms(execMs.p50)} (p95 ` +
    `${ms(execMs.p95)}), digest ${ms(digestMs)}`;
  const many =
    `${together.concurrency} at a time: all made in ${ms(together.startedMs)}, ${execsPerSecond.toFixed(0)} ` +
    `commands/s, slowest ${ms(together.execMs.max)}`;
  return `${provider}: ${alone}\n  ${many}`;
}

async function sandbox(options: SandboxOptions, context: VerbContext): Promise<Outcome> {
  const named = PROVIDERS.filter((name) => options.provider === 'all' || options.provider === name);
  if (named.length === 0)
    throw new UserInputError('--provider', options.provider, `give one of ${PROVIDERS.join(', ')}, all`);
  const document = await benchSandbox({
    providers: named,
    sandboxes: wholeNumber('--sandboxes', options.sandboxes, 1),
    commands: wholeNumber('--commands', options.commands, 1),
    concurrency: wholeNumber('--concurrency', options.concurrency, 1),
  });
  for (const each of document.providers) context.say(sandboxLine(each));
  for (const { provider, reason } of document.absent) context.say(`${provider}: not measured, ${reason}`);
  return { document };
}

export const sandboxBench: Verb = {
  define(command, run) {
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
