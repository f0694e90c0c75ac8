/** `longhaul runs`, `show`, `watch`: lists runs, shows one, follows one. */

import { Interrupted, Unreachable, UserInputError } from '../../../client/errors.ts';
import { evalReportLines } from '../../eval/format.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { requireCompleted } from '../../train/run-failure.ts';
import { followRun, type Screen, screenOn } from '../../train/follow.ts';
import { evaluationLines, evaluationName, stepLine } from '../../train/format.ts';
import { ANSWERS_WITHIN_MS, askLive, linesOfLive, type Live, whyUnanswered, whyUnknown } from '../../train/live-run.ts';
import { type SpentReport, spentLines, usedText } from '../../../reports/spent.ts';
import { reportLines } from '../../train/report.ts';
import { reportDisks } from '../../connect/troubles.ts';
import { type LocalStore, withLocalStore } from '../../connect/local-store.ts';
import { allWork } from '../../connect/all-work.ts';
import { isSingleRollout, runNames } from '../../connect/known-names.ts';
import { fullName } from '../../connect/names.ts';
import { withLonghaul } from '../../connect/with-run.ts';
import { table } from '../../terminal-text.ts';
import { type Trip, tripLine } from '../../../protocol/breaker.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';
import { singleRollout, trajectory } from './rollouts.ts';

/** Runs, evals and single rollouts, each with the command that shows it. */
function listAll(context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const all = await allWork(local, context);
    const rows = all.map(({ kind, id, status, startedAt, look }) => [kind, id, status, startedAt || '-', look]);
    for (const line of table([['KIND', 'ID', 'STATUS', 'STARTED', 'LOOK AT IT'], ...rows])) context.say(line);
    return { document: all };
  });
}

function list(context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const summaries = await Promise.all((await local.runs()).map(({ run }) => local.summary(run)));
    summaries.sort((a, b) => a.startedAt.localeCompare(b.startedAt));
    const rows = summaries.map((s) => [
      s.runId,
      s.status,
      `${s.steps.length} steps`,
      usedText(s.spent),
      s.evaluation.before ? s.evaluation.before.passRate.toFixed(3) : '-',
      s.evaluation.after ? s.evaluation.after.passRate.toFixed(3) : '-',
      s.startedAt,
    ]);
    for (const line of table([['RUN', 'STATUS', 'DONE', 'USED', 'BEFORE', 'AFTER', 'STARTED'], ...rows]))
      context.say(line);
    return { document: summaries.map(({ steps, ...rest }) => ({ ...rest, steps: steps.length })) };
  });
}

/** Returns `undefined`, and notes why, if the run does not answer. */
async function liveOf(run: string, context: VerbContext): Promise<Live | undefined> {
  try {
    return await withLonghaul(context, ({ client }) => askLive(client, run));
  } catch (error) {
    context.note(`run ${run} has not ended, but its current state is unknown: ${whyUnknown(run, error)}`);
    return undefined;
  }
}

/** Returns why the circuit breaker paused the eval; `undefined` if it did not, or if the eval does not answer. */
async function heldEval(id: string, context: VerbContext): Promise<Trip | undefined> {
  try {
    return (await withLonghaul(context, (longhaul) => longhaul.evaluation(id).status(ANSWERS_WITHIN_MS))).tripped;
  } catch (error) {
    context.note(`eval ${id} has not ended, but its current state is unknown: ${whyUnanswered(error)}`);
    return undefined;
  }
}

/** The run itself knows its hours better than its records, which are as old as its last step. */
const hours = (spent: SpentReport, live: Live | undefined): SpentReport =>
  live?.status === undefined ? spent : { ...spent, hours: live.status.workedSeconds / 3600 };

const LAST_STEPS = 20;

/** Returns the full name of a run or an eval; `given` itself if no name starts with it. */
async function named(given: string, local: LocalStore): Promise<string> {
  const names = [...(await runNames(local.model, 'run')), ...(await runNames(local.model, 'eval'))];
  return fullName(given, names, 'RUN') ?? given;
}

async function show(given: string, context: VerbContext): Promise<Outcome> {
  const rollout = await singleRollout(given, context);
  if (rollout !== undefined) return trajectory(rollout, context);
  const disks = await reportDisks(context);
  return withLocalStore(context, async (local) => {
    const run = await named(given, local);
    const id = evalOf(run);
    if (id !== undefined) {
      const results = await localEval(id, local);
      const tripped = results.status === 'running' ? await heldEval(id, context) : undefined;
      if (tripped) context.say(tripLine(tripped, run));
      for (const line of evalReportLines(results)) context.say(line);
      return { document: tripped ? { ...results, tripped } : results };
    }
    const document = await local.summary(run);
    const live = document.status === 'running' ? await liveOf(run, context) : undefined;
    const { status, startedAt, policy, evaluation, steps, changes } = document;
    context.say(`${run}: ${status}, started ${startedAt}, policy ${policy.base}`);
    for (const line of live ? linesOfLive(live) : []) context.say(line);
    for (const line of spentLines(hours(document.spent, live))) context.say(line);
    for (const one of evaluation.all) {
      for (const line of evaluationLines(evaluationName(one.step), one)) context.say(line);
    }
    for (const { at, step, field, from, to } of changes)
      context.say(`changed after step ${step}: ${field} ${from ?? 'unset'} → ${to} (${at})`);
    const earlier = steps.length - LAST_STEPS;
    if (earlier > 0) context.say(`… ${earlier} earlier steps: --json, or metrics.jsonl of the run's folder`);
    for (const step of steps.slice(-LAST_STEPS))
      context.say(stepLine(step, live?.status?.steps ?? document.plannedSteps));
    const isUnseen = document.status === 'running' && live === undefined;
    return { document: live ? { ...document, live } : document, exitCode: isUnseen && disks.length > 0 ? 3 : 0 };
  });
}

async function follow(run: string, local: LocalStore, screen: Screen, context: VerbContext): Promise<void> {
  const summary = () => local.summary(run);
  try {
    await withLonghaul(context, ({ client }) => followRun(client, run, summary, screen, context.signal));
  } catch (error) {
    if (!context.signal.aborted) throw error;
    throw new Interrupted(`run ${run} continues; attach again with: npx longhaul watch ${run}`, { cause: error });
  }
}

function refuseEval(name: string): void {
  if (evalOf(name) === undefined) return;
  throw new UserInputError(
    'RUN',
    name,
    'give a run. To follow an eval, run the command that started it (npx longhaul eval CONFIG); to show it: ' +
      `npx longhaul show ${name}`,
  );
}

/** Errors: `JobFailed` for a run that did not complete; `Interrupted`, with how to attach. */
async function watch(given: string, context: VerbContext): Promise<Outcome> {
  if (isSingleRollout(given))
    throw new UserInputError(
      'RUN',
      given,
      `give a run. To follow a single rollout: npx longhaul rollout --attach ${given}`,
    );
  refuseEval(given);
  const run = await withLocalStore(context, (local) => named(given, local));
  refuseEval(run);
  await reportDisks(context);
  return withLocalStore(context, async (local) => {
    const { status } = await local.summary(run);
    const out = context.json ? process.stderr : process.stdout;
    await follow(run, local, screenOn(out), context).catch((error: unknown) => {
      // A run that has ended is in the store; no server is required.
      if (status === 'running' || !(error instanceof Unreachable)) throw error;
    });
    const document = await local.summary(run);
    const { runDir } = (await local.runs()).find((record) => record.run === run) ?? { runDir: '' };
    for (const line of await reportLines(document, runDir, local.store)) context.say(line);
    requireCompleted(document);
    return { document };
  });
}

export const runsVerb: Verb = {
  define(command, run) {
    command
      .option('--all', 'evals and single rollouts too, each with the command that shows it')
      .action(({ all }: { all?: boolean }) => run(all === true ? listAll : list));
  },
};

export const showVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, eval/ID, or id of a single rollout; a unique prefix is enough')
      .action((id: string) => run((context) => show(id, context)));
  },
};

export const watchVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run; a unique prefix is enough')
      .action((id: string) => run((context) => watch(id, context)));
  },
};
