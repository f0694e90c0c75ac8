/** Lists runs, evals and single rollouts that were started here, from the store and, if it answers, from Temporal. */

import type { ReadModel } from '../../reports/read-model/read-model.ts';
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

/** Runs and evals of the store, the oldest first. */
async function runsAndEvals(model: ReadModel): Promise<Work[]> {
  const rows = await model.runs();
  return rows.map(({ kind, name: id, status, startedAt }) => ({
    kind,
    id,
    status,
    startedAt,
    look: kind === 'run' ? `npx longhaul show ${id}` : command('show', id),
  }));
}

async function endedRollouts(model: ReadModel): Promise<Work[]> {
  const rows = (await model.rollouts({ prefix: SINGLE })).filter(({ status }) => status !== 'running');
  return rows.map(({ rollout: id, status, firstAt }) => ({
    kind: 'rollout',
    id,
    status,
    startedAt: firstAt ?? '',
    look: command('trajectory', id),
  }));
}

/** Single rollouts that Temporal knows, including running ones and those whose id a program chose. */
async function rolloutsOnTemporal(longhaul: Longhaul): Promise<Work[]> {
  const found = await longhaul.client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => singleRollouts(longhaul));
  return found.map(({ id, status, startedAt }) => {
    const look = command(status === 'running' ? 'rollout --attach' : 'trajectory', id);
    return { kind: 'rollout', id, status: status === 'completed' ? 'ended' : status, startedAt, look };
  });
}

/** Runs, evals and single rollouts, the oldest first. If Temporal does not answer, only those in the store. */
export async function allWork({ model }: LocalStore, context: VerbContext): Promise<Work[]> {
  const known = [...(await runsAndEvals(model)), ...(await endedRollouts(model))];
  const live = await withLonghaul(context, rolloutsOnTemporal).catch((error: unknown) => {
    context.note(`running rollouts are not listed: ${whyUnanswered(error)}`);
    return [];
  });
  const ids = new Set(known.map(({ id }) => id));
  return [...known, ...live.filter(({ id }) => !ids.has(id))].sort((a, b) => a.startedAt.localeCompare(b.startedAt));
}
