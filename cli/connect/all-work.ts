/** Lists evals and single rollouts that were started here, from the store and, if it answers, from Temporal. */

import { evalRun, type EvalRecord } from '../../reports/evaluation/eval-records.ts';
import { evalResultsOf } from '../../reports/evaluation/eval-results.ts';
import { keys, type OutcomeRecord } from '../../protocol/records.ts';
import type { Store } from '../../store/store.ts';
import type { Longhaul } from '../../client/longhaul.ts';
import { shellWord } from '../terminal-text.ts';
import type { VerbContext } from '../verb.ts';
import type { LocalStore } from './local-store.ts';
import { SINGLE, singleRollouts } from './known-names.ts';
import { ANSWERS_WITHIN_MS, whyUnanswered } from '../train/live-run.ts';
import { withLonghaul } from './with-run.ts';

export interface Work {
  readonly kind: 'run' | 'eval' | 'rollout';
  /** In the form that verbs accept. */
  readonly id: string;
  readonly status: string;
  readonly startedAt: string;
  /** The command that shows it. */
  readonly look: string;
}

const command = (verb: string, id: string): string => `npx longhaul ${verb} ${shellWord(id)}`;

async function evals(store: Store): Promise<Work[]> {
  const results = await Promise.all(
    (await store.list<EvalRecord>('eval:')).map(({ value }) => evalResultsOf(value.eval, store)),
  );
  return results.flatMap((one) => {
    if (!one) return [];
    const id = evalRun(one.eval);
    return [{ kind: 'eval' as const, id, status: one.status, startedAt: one.startedAt, look: command('show', id) }];
  });
}

async function endedRollouts(store: Store): Promise<Work[]> {
  const outcomes = await store.list<OutcomeRecord>(keys.outcome(SINGLE));
  return Promise.all(
    outcomes.map(async ({ value: { rollout, status } }) => {
      const [first] = await store.events(rollout);
      return {
        kind: 'rollout' as const,
        id: rollout,
        status,
        startedAt: first?.at ?? '',
        look: command('trajectory', rollout),
      };
    }),
  );
}

/** Single rollouts that Temporal knows, including running ones and those whose id a program chose. */
async function rolloutsOnTemporal(longhaul: Longhaul): Promise<Work[]> {
  const found = await longhaul.client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => singleRollouts(longhaul));
  return found.map(({ id, status, startedAt }) => {
    const look = command(status === 'running' ? 'rollout --attach' : 'trajectory', id);
    return { kind: 'rollout', id, status: status === 'completed' ? 'ended' : status, startedAt, look };
  });
}

/** Evals and single rollouts, the oldest first. If Temporal does not answer, only those in the store. */
export async function evalsAndRollouts({ store }: LocalStore, context: VerbContext): Promise<Work[]> {
  const known = [...(await evals(store)), ...(await endedRollouts(store))];
  const live = await withLonghaul(context, rolloutsOnTemporal).catch((error: unknown) => {
    context.note(`running rollouts are not listed: ${whyUnanswered(error)}`);
    return [];
  });
  const ids = new Set(known.map(({ id }) => id));
  return [...known, ...live.filter(({ id }) => !ids.has(id))].sort((a, b) => a.startedAt.localeCompare(b.startedAt));
}
