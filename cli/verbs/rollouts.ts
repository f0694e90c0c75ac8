/** `longhaul rollouts` and `trajectory`: what happened, rollout by rollout and turn by turn. */

import { keys, type OutcomeRecord } from '../../activities/records.ts';
import { eventsOfRun } from '../../activities/run/rollout-ends.ts';
import { trajectoryOf } from '../../activities/run/trajectories.ts';
import { UserInputError } from '../errors.ts';
import { loadModules } from '../access/own-modules.ts';
import { evalOf, localEval } from '../eval/local-eval.ts';
import { withLocalStore } from '../access/local-store.ts';
import { rolloutPrefixes } from '../access/rollout-prefixes.ts';
import { table } from '../table.ts';
import { trajectoryText } from '../train/format.ts';
import type { Outcome, Verb, VerbContext } from '../verb.ts';

interface Options {
  readonly step?: string;
}

function rollouts(run: string, options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const { store } = local;
    const id = evalOf(run);
    const { accounting } = id === undefined ? await local.summary(run) : await localEval(id, store);
    const prefixes = await rolloutPrefixes(run, options.step, store);
    const events = (await eventsOfRun(run, store)).filter(({ rollout }) => prefixes.some((prefix) => rollout.startsWith(prefix)));
    const outcomes: OutcomeRecord[] = [];
    for (const prefix of prefixes) outcomes.push(...(await store.list<OutcomeRecord>(keys.outcome(prefix))).map(({ value }) => value));
    const rows = outcomes.map((o) => [
      o.rollout,
      o.status === 'graded' ? String(o.reward) : `failed: ${o.failure ?? 'internal'}`,
      o.finish ?? '-',
      String(o.turns),
      o.reason.split('\n')[0]?.slice(0, 60) ?? '',
    ]);
    for (const line of table([['ROLLOUT', 'REWARD', 'FINISH', 'TURNS', 'REASON'], ...rows])) context.say(line);
    const plain = events.map(({ rollout, attempt, event, at, detail }) => ({ rollout, attempt, event, at, ...(detail ? { detail } : {}) }));
    return { document: { run, accounting, rollouts: outcomes, events: plain } };
  });
}

async function trajectory(rollout: string, context: VerbContext): Promise<Outcome> {
  await loadModules(context, 'last');
  return withLocalStore(context, async ({ store }) => {
    const found = await trajectoryOf(rollout, store);
    if (!found) {
      throw new UserInputError('ROLLOUT', rollout, 'give the id of a rollout that has ended, as `longhaul rollouts RUN` prints it');
    }
    context.say(trajectoryText(found));
    return { document: found };
  });
}

export const rolloutsVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, or eval/ID')
      .option('--step <n>', 'only the rollouts of this training step')
      .action((id: string, options: Options) => run((context) => rollouts(id, options, context)));
  },
};

export const trajectoryVerb: Verb = {
  define(command, run) {
    command.argument('<rollout>', 'id of the rollout').action((id: string) => run((context) => trajectory(id, context)));
  },
};
