/**
 * `longhaul chaos`: the same job twice on its own stack, once with random kills of its processes and once without. The
 * results of both are recomputed from their records and compared.
 */

import { readdirSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import type { StepEntry } from '../protocol/records.ts';
import { endOfRun } from '../reports/run-end.ts';
import { checkpointDir, summaryOf } from '../reports/run-summary.ts';
import { accountFor } from '../reports/accounting.ts';
import { storeUrl } from '../connection/store-url.ts';
import { openStore } from '../store/open-store.ts';
import type { Store } from '../store/store.ts';
import { loadWeights, weightsDigest } from '../trainer/model/weights.ts';
import { ensureStack } from '../stack/ensure-stack.ts';
import { logTail } from '../stack/processes/log-files.ts';
import { stopStack } from '../stack/stop-stack.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { Interrupted, JobFailed, UserInputError } from '../client/errors.ts';
import { GRADER_LEASE, SANDBOX_LEASE } from '../sandboxes/leases.ts';
import { Longhaul } from '../client/longhaul.ts';
import { broken, recoveryOf, repeatedIn, uncutRepeats } from './account.ts';
import { type CarriedOut, disturb } from './disturb.ts';
import { type ChaosJob, jobConfig } from './job.ts';
import { Journal } from './journal.ts';
import { type PlannedKill, planKills } from './plan-kills.ts';
import { bubblewrapSandboxes, dockerSandboxes } from './live-sandboxes.ts';
import { type OwnDocker, ownDockerUnlessGiven } from './own-docker.ts';
import { ownEnvironment, type Stage } from './stage.ts';
import { differingRollouts } from './traces.ts';
import { WaitingClient } from './waiting-client.ts';

export interface ChaosOptions {
  readonly kills: number;
  readonly seed: number;
  /** Absent: `swe-mini`. */
  readonly job?: ChaosJob;
  /** Default: a new temporary folder. */
  readonly dir?: string;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly note: (line: string) => void;
}

/** More than any plan needs: the run is shortened after the recovery from the last kill. */
const STEPS_PER_KILL = 100;
/** After this many failures, the program that starts the run is not retried. */
const HOPELESS_STARTS = 3;
const LEAST_STEPS = 3;
const QUIET_MS = 300_000;
const POLL_MS = 500;
const SWEPT_WITHIN_TRIES = 120;

async function folderFor(dir: string | undefined): Promise<string> {
  if (dir === undefined) return mkdtemp(join(tmpdir(), 'longhaul-chaos-'));
  const refused = (why: string, options?: ErrorOptions) =>
    new UserInputError('--dir', dir, `give a folder that is empty or does not exist${why}`, options);
  await mkdir(dir, { recursive: true }).catch((error: Error) => {
    throw refused(` (${error.message})`, { cause: error });
  });
  if (readdirSync(dir).length > 0) throw refused('');
  return dir;
}

/**
 * Waits until the run has started, so that kills can disturb it. Errors: `JobFailed` if the program that starts it
 * fails repeatedly, or nothing starts for five minutes.
 */
export async function untilBegun(
  { journal, client, dir }: Pick<Stage, 'journal' | 'client' | 'dir'>,
  signal: AbortSignal,
): Promise<void> {
  const begun = Date.now();
  while ((await journal.all()).length === 0) {
    const why =
      client.failures >= HOPELESS_STARTS
        ? `its program failed ${client.failures} times`
        : Date.now() - begun > QUIET_MS
          ? `nothing has started for ${QUIET_MS / 60_000} minutes`
          : undefined;
    if (why !== undefined)
      throw new JobFailed(`the run does not start: ${why}; its log ends:\n${logTail(join(dir, 'client.log'), 5)}`);
    await sleep(50, undefined, { signal });
  }
}

/** Waits for the end of a run. Errors: `JobFailed` if nothing starts in it for five minutes. */
async function untilEnded(store: Store, run: string, signal: AbortSignal): Promise<void> {
  const journal = new Journal(store, run);
  let [seen, since] = [0, Date.now()];
  while ((await endOfRun(run, store)) === undefined) {
    const begun = (await journal.all()).length;
    if (begun !== seen) [seen, since] = [begun, Date.now()];
    if (Date.now() - since > QUIET_MS)
      throw new JobFailed(`run ${run} makes no progress: nothing has started for ${QUIET_MS / 60_000} minutes`);
    await sleep(POLL_MS, undefined, { signal });
  }
}

/** Makes the current step the last one; returns the number of steps. Errors: `JobFailed` if the run has ended. */
export async function shorten(
  { run, longhaul, store }: Pick<Stage, 'run' | 'longhaul' | 'store'>,
  signal: AbortSignal,
): Promise<number> {
  for (;;) {
    signal.throwIfAborted();
    const end = await endOfRun(run.run, store);
    if (end !== undefined)
      throw new JobFailed(`run ${run.run} ${end.status} before it had recovered from its kills: ${end.message}`);
    try {
      return await longhaul.client.withDeadline(Date.now() + 10_000, async () => {
        const { step } = await run.status();
        return (await run.configure({ steps: Math.max(step + 1, LEAST_STEPS) })).steps;
      });
    } catch {
      // The step ended meanwhile, or a worker is starting: retry.
      await sleep(POLL_MS, undefined, { signal });
    }
  }
}

/** Sandboxes that an ended run still holds after a while: the sweeper removes those that workers could not release. */
async function heldBy(run: string, store: Store): Promise<string[]> {
  for (let tries = 0; ; tries += 1) {
    const leases = [...(await store.leases(SANDBOX_LEASE)), ...(await store.leases(GRADER_LEASE))];
    const held = leases.filter(({ owner }) => owner.startsWith(`train/${run}/`)).map(({ id }) => id);
    if (held.length === 0 || tries === SWEPT_WITHIN_TRIES) return held;
    await sleep(POLL_MS);
  }
}

async function digestsOf(store: Store, run: string): Promise<string[]> {
  return (await store.list<StepEntry>(`step:${run}/`)).map(({ value }) => value.sha256 ?? '');
}

/** The digest of the last step's weights on disk. */
async function lastDigest({ dir, run }: RunConfig, steps: number): Promise<string> {
  return weightsDigest(await loadWeights(checkpointDir(join(dir, run), steps)));
}

async function disturbedRun(stage: Stage, plan: readonly PlannedKill[], signal: AbortSignal) {
  stage.client.start();
  await untilBegun(stage, signal);
  const carriedOut = await disturb(plan, stage, signal);
  const steps = await shorten(stage, signal);
  stage.note(`the stack has recovered from all kills; the run ends with step ${steps}`);
  await untilEnded(stage.store, 'disturbed', signal);
  return { carriedOut, steps, clientEnded: await stage.client.ended(60_000) };
}

async function report(
  stage: Stage,
  { seed, job }: Pick<ChaosOptions, 'seed' | 'job'>,
  carriedOut: readonly CarriedOut[],
  steps: number,
  clientEnded: boolean,
) {
  const { store, dir } = stage;
  const kills = carriedOut.map(({ kill }) => kill);
  const runs = { disturbed: join(dir, 'runs', 'disturbed'), reference: join(dir, 'runs', 'reference') };
  const last = (run: string) => lastDigest(jobConfig(run, seed, steps, dir, job), steps);
  const [checkpoint, expected] = [await last('disturbed'), await last('reference')];
  const [own, others] = [await digestsOf(store, 'disturbed'), await digestsOf(store, 'reference')];
  const identical =
    checkpoint === expected && own.length === others.length && own.every((digest, i) => digest === others[i]);
  const accounting = accountFor(await store.events('disturbed'), true);
  const works = await stage.journal.all();
  const repeated = repeatedIn(works);
  const uncut = uncutRepeats(
    works,
    carriedOut.map(({ cut }) => cut),
  );
  const held = await heldBy('disturbed', store);
  const otherwise = await differingRollouts('disturbed', 'reference', store);
  const problems = [
    ...(held.length > 0 ? [`${held.length} sandboxes are still held: ${held.join(', ')}`] : []),
    ...broken({ kills, accounting, uncut, identical, otherwise }),
    ...(clientEnded ? [] : ['the waiting client did not reach the end of the run']),
    ...(stage.client.failures > 0 ? [`the waiting client failed by itself ${stage.client.failures} times`] : []),
  ];
  return {
    seed,
    kills,
    accounting,
    repeated,
    runs,
    checkpoint,
    reference: expected,
    identical,
    steps,
    recovery: recoveryOf(kills),
    problems,
  };
}

export type ChaosReport = Awaited<ReturnType<typeof report>>;

async function onStack(stage: Stage, { kills, seed, job, signal, note }: ChaosOptions): Promise<ChaosReport> {
  const there = { dockerd: stage.docker !== undefined, sandboxes: job?.hasSandboxes ?? true };
  const done = await disturbedRun(stage, planKills(seed, kills, there), signal);
  note('the reference: the same run without kills');
  await stage.longhaul.train(jobConfig('reference', seed, done.steps, stage.dir, job));
  await untilEnded(stage.store, 'reference', signal);
  for (const run of ['disturbed', 'reference']) {
    const summary = await summaryOf(run, stage.store, { address: '', namespace: '', ui: '' });
    if (summary?.status !== 'completed')
      throw new JobFailed(`run ${run} ${summary?.status ?? 'never started'}: ${summary?.message ?? ''}`);
  }
  return report(stage, { seed, ...(job && { job }) }, done.carriedOut, done.steps, done.clientEnded);
}

/** Lists the sandboxes of both providers: the stack may use either. */
function sandboxesOf(home: string, env: NodeJS.ProcessEnv): Stage['sandboxes'] {
  const inBubblewrap = bubblewrapSandboxes(join(home, 'sandboxes'));
  const inDocker = dockerSandboxes(join(home, 'sandboxes-docker'), env);
  return async (prefix) => [...(await inBubblewrap(prefix)), ...(await inDocker(prefix))];
}

async function withStage(
  dir: string,
  env: NodeJS.ProcessEnv,
  docker: OwnDocker | undefined,
  options: ChaosOptions,
): Promise<ChaosReport> {
  const { kills, seed, job, note, signal } = options;
  const home = join(dir, '.longhaul');
  const file = join(dir, 'disturbed.yaml');
  const { run: _run, dir: _dir, ...settings } = jobConfig('disturbed', seed, STEPS_PER_KILL * kills, dir, job);
  writeFileSync(file, stringify(settings));
  const client = new WaitingClient(['train', file, '--run-id', 'disturbed'], dir, env);
  try {
    const { address, namespace } = await ensureStack({ home, env, signal });
    const store = await openStore(storeUrl(home, env));
    const longhaul = await Longhaul.connect({ address, namespace });
    try {
      const journal = new Journal(store, 'disturbed');
      const run = longhaul.run('disturbed');
      const stage = { dir, home, env, store, longhaul, run, journal, client, sandboxes: sandboxesOf(home, env), note };
      return await onStack(docker ? { ...stage, docker } : stage, options);
    } finally {
      client.kill();
      await longhaul.close();
      await store.close();
    }
  } finally {
    await stopStack({ home });
  }
}

/**
 * Starts and stops its own stack; both run folders and the store are kept.
 * Errors: `UserInputError` for a folder that is in use; `JobFailed` for a run that did not complete; `Interrupted`.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const dir = await folderFor(options.dir);
  const own = ownEnvironment(options.env, dir);
  options.note(`${options.kills} kills with seed ${options.seed}, in ${dir}`);
  const docker =
    own['LONGHAUL_SANDBOX'] === 'docker' ? await ownDockerUnlessGiven(join(dir, 'docker'), own) : undefined;
  try {
    return await withStage(dir, docker ? { ...own, DOCKER_HOST: docker.host } : own, docker, options);
  } catch (error) {
    if (!options.signal.aborted) throw error;
    throw new Interrupted(`Interrupted. The stack has stopped; its files stay in ${dir}`, { cause: error });
  } finally {
    await docker?.stop();
  }
}
