/** `longhaul rollouts` and `trajectory`: a run's rollouts, and one rollout turn by turn. */

import { TaskLoader } from '../../../tasks/task-loader.ts';
import { keys, type OutcomeRecord } from '../../../protocol/records.ts';
import { eventsOfRun } from '../../../reports/rollout-ends.ts';
import { trajectoryOf } from '../../../reports/trajectories.ts';
import type { Store } from '../../../store/store.ts';
import { UserInputError } from '../../../client/errors.ts';
import { isSingleRollout, rolloutNames } from '../../connect/known-names.ts';
import { didYouMean, fullName } from '../../connect/names.ts';
import { loadModules } from '../../connect/own-modules.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { knownNames, withLocalStore } from '../../connect/local-store.ts';
import { rolloutPrefixes } from '../../connect/rollout-prefixes.ts';
import { table } from '../../terminal-text.ts';
import { trajectoryText } from '../../train/format.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly step?: string;
}

/** The first line of the reason, cut to 60 characters. A failure's line stays whole: it contains the place. */
function reasonOf({ status, reason }: OutcomeRecord): string {
  const first = reason.split('\n')[0] ?? '';
  return status === 'failed' ? first : first.slice(0, 60);
}

function rollouts(run: string, options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const { store } = local;
    const id = evalOf(run);
    const { accounting } = id === undefined ? await local.summary(run) : await localEval(id, store);
    const prefixes = await rolloutPrefixes(run, options.step, store);
    const events = (await eventsOfRun(run, store)).filter(({ rollout }) =>
      prefixes.some((prefix) => rollout.startsWith(prefix)),
    );
    const outcomes: OutcomeRecord[] = [];
    for (const prefix of prefixes)
      outcomes.push(...(await store.list<OutcomeRecord>(keys.outcome(prefix))).map(({ value }) => value));
    const rows = outcomes.map((o) => [
      o.rollout,
      o.status === 'graded' ? String(o.reward) : `failed: ${o.failure ?? 'internal'}`,
      o.finish ?? '-',
      String(o.turns),
      reasonOf(o),
    ]);
    for (const line of table([['ROLLOUT', 'REWARD', 'FINISH', 'TURNS', 'REASON'], ...rows])) context.say(line);
    const plain = events.map(({ rollout, attempt, event, at, detail }) => ({
      rollout,
      attempt,
      event,
      at,
      ...(detail ? { detail } : {}),
    }));
    return { document: { run, accounting, rollouts: outcomes, events: plain } };
  });
}

/** Ended rollouts whose ids start with `given`, and all ended single rollouts. */
async function namesFor(given: string, store: Store): Promise<string[]> {
  const ofRuns =
    given === '' ? [] : (await store.list<OutcomeRecord>(keys.outcome(given))).map(({ value }) => value.rollout);
  return [...ofRuns, ...(await rolloutNames(store))];
}

/** Returns the single rollout that `given` names, in full or by a unique prefix; `undefined` for anything else. */
export async function singleRollout(given: string, context: VerbContext): Promise<string | undefined> {
  const name = fullName(given, await knownNames(context), 'RUN');
  return name !== undefined && isSingleRollout(name) ? name : undefined;
}

export async function trajectory(given: string, context: VerbContext): Promise<Outcome> {
  await loadModules(context, 'last');
  return withLocalStore(context, async ({ store }) => {
    const rollout = fullName(given, await namesFor(given, store), 'ROLLOUT') ?? given;
    const found = await trajectoryOf(rollout, { store, tasks: new TaskLoader(store) });
    if (!found) {
      const near = didYouMean(given, await rolloutNames(store));
      throw new UserInputError(
        'ROLLOUT',
        given,
        `${near}give the id of an ended rollout; list them with: npx longhaul rollouts RUN, or npx longhaul runs --all`,
      );
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
    command
      .argument('<rollout>', 'id of the rollout; a unique prefix is enough')
      .action((id: string) => run((context) => trajectory(id, context)));
  },
};
