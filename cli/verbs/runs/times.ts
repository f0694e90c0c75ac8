/** `longhaul times`: where the time of a run's rollouts went, by their histories in Temporal. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { endedNames } from '../../connect/known-names.ts';
import { withLocalStore } from '../../connect/local-store.ts';
import { rolloutPrefixes } from '../../connect/rollout-prefixes.ts';
import { withLonghaul } from '../../connect/with-run.ts';
import { UserInputError } from '../../../client/errors.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { meanOf, timesLines } from '../../rollout/mean-times.ts';
import { type HistoryEvent, type RolloutTimes, timesOf } from '../../rollout/rollout-times.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface Options {
  readonly step?: string;
  readonly sample: string;
}

/** Takes `count` elements of `all`, evenly spaced. */
function spread<T>(all: readonly T[], count: number): T[] {
  const taken = Math.min(count, all.length);
  return Array.from({ length: taken }, (_, i) => all[Math.floor((i * all.length) / taken)] as T);
}

/** The rollout's last history; `undefined` if Temporal no longer keeps it. */
async function historyOf(client: Client, rollout: string): Promise<readonly HistoryEvent[] | undefined> {
  try {
    return (await client.workflow.getHandle(rollout).fetchHistory()).events ?? [];
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

function ended(run: string, options: Options, context: VerbContext): Promise<string[]> {
  return withLocalStore(context, async (local) => {
    const id = evalOf(run);
    await (id === undefined ? local.summary(run) : localEval(id, local));
    const ids: string[] = [];
    for (const prefix of await rolloutPrefixes(run, options.step, local))
      ids.push(...(await endedNames(local.model, prefix)));
    return ids;
  });
}

async function times(run: string, options: Options, context: VerbContext): Promise<Outcome> {
  const sample = wholeNumber('--sample', options.sample, 1);
  const all = await ended(run, options, context);
  if (all.length === 0) throw new UserInputError('RUN', run, 'none of its rollouts has ended yet');
  return withLonghaul(context, async ({ client }) => {
    const found: RolloutTimes[] = [];
    for (const id of spread(all, sample)) {
      const events = await historyOf(client, id);
      if (events) found.push(timesOf(events));
    }
    if (found.length === 0)
      throw new UserInputError(
        'RUN',
        run,
        'Temporal no longer keeps the histories of its rollouts (LONGHAUL_RETENTION, or the retention of the ' +
          'namespace)',
      );
    const mean = meanOf(found);
    for (const line of timesLines(mean)) context.say(line);
    return { document: { run, ended: all.length, ...mean } };
  });
}

export const timesVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, or eval/ID')
      .option('--step <n>', 'only the rollouts of this training step')
      .option('--sample <n>', 'number of rollouts to read, evenly spaced', '100')
      .action((id: string, options: Options) => run((context) => times(id, options, context)));
  },
};
