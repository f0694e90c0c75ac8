/**
 * Opens a sweep: its policies are resolved once, and a name stands for one configuration and these policies from then
 * on. Started again, it is in its next round, and rollouts that an earlier one left without an end have one.
 */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { Store } from '../../store/store.ts';
import type { OpenedSweep, SweepCell, SweepConfig } from '../../workflows/eval-types.ts';
import { UserInputError } from '../failures.ts';
import { checkPolicy, refuseOtherConfig } from '../open-run.ts';
import { writeAside } from '../write-aside.ts';
import { evalKeys, type EvalRecord, type EvalRound } from './eval-records.ts';
import { fingerprintOf } from './pin-checkpoint.ts';
import { type ResolvedPolicy, resolvePolicy } from './policy-reference.ts';
import { settleEnds } from './settle-ends.ts';
import { checkTasks, resolveSweepConfig } from './sweep-config.ts';

export interface OpenSweepInput {
  readonly given: unknown;
  /** The name that the workflow's id says. */
  readonly eval: string;
  /** Of the workflow's first execution: every start has its own. */
  readonly execution: string;
}

/** The workflow's name stands; a scheduled sweep's is that of the configuration and the time. */
function named(given: unknown, id: string): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given;
  const said = (given as Record<string, unknown>)['eval'];
  if (said !== undefined && said !== id && !(typeof said === 'string' && id.startsWith(`${said}-`))) {
    throw new UserInputError('eval', said, `the workflow is eval/${id}: leave \`eval\` out, or give the workflow its name`);
  }
  return { ...given, eval: id };
}

/** What makes results comparable; how many sandboxes a host can hold does not. */
function comparable({ dispatcher: _dispatcher, maxFailed: _maxFailed, dir: _dir, ...rest }: SweepConfig): object {
  return rest;
}

/**
 * Weights that were changed under their name would be told as the same policy's.
 * Errors: `UserInputError` for the first setting or policy that is not what the eval began with.
 */
export async function checkUnchanged(config: SweepConfig, record: EvalRecord): Promise<void> {
  refuseOtherConfig({ kind: 'eval', name: config.eval, known: comparable(record.config), asked: comparable(config) });
  for (const { name, policy, ref, from, fingerprint } of record.policies) {
    if (from !== undefined) continue;
    await checkPolicy(ref.dir, `policies.${name}`);
    if ((await fingerprintOf(ref.dir)) === fingerprint) continue;
    throw new UserInputError(`policies.${name}`, policy, `its files are not those that eval ${config.eval} began with; give another eval name`);
  }
}

async function recordOf(config: SweepConfig, store: Store): Promise<EvalRecord> {
  const key = evalKeys.record(config.eval);
  const known = await store.get<EvalRecord>(key);
  if (known) {
    await checkUnchanged(config, known);
    return known;
  }
  // A scheduled sweep's name has colons, which some tools take for something else in a path.
  const evalDir = join(config.dir, config.eval.replaceAll(':', '-'));
  await mkdir(evalDir, { recursive: true });
  const policies: ResolvedPolicy[] = [];
  for (const policy of config.policies) policies.push(await resolvePolicy(policy, evalDir, store));
  return store.putOnce<EvalRecord>(key, { eval: config.eval, evalDir, startedAt: new Date().toISOString(), config, policies });
}

/** The same execution is in the same round however often it asks. */
async function roundOf(id: string, execution: string, store: Store): Promise<number> {
  for (let round = 1; ; round += 1) {
    const kept = await store.putOnce<EvalRound>(evalKeys.round(id, round), { execution, startedAt: new Date().toISOString() });
    if (kept.execution === execution) return round;
  }
}

function cellsOf({ config, policies }: EvalRecord): SweepCell[] {
  return policies.flatMap((policy) =>
    config.sampling.map(({ name, samples, ...sampling }) => ({
      name: `${policy.name}/${name}`,
      policyName: policy.name,
      samplingName: name,
      policy: policy.ref,
      sampling,
      samples,
    })),
  );
}

/** Errors: `UserInputError` for what cannot be used, and for a name that stands for something else already. */
export async function openSweep({ given, eval: id, execution }: OpenSweepInput, store: Store): Promise<OpenedSweep> {
  const config = resolveSweepConfig(named(given, id), process.cwd());
  checkTasks(config.tasks);
  const record = await recordOf(config, store);
  const round = await roundOf(id, execution, store);
  if (round > 1) await settleEnds(id, 'superseded', store, round);
  await mkdir(record.evalDir, { recursive: true });
  await writeAside(join(record.evalDir, 'config.yaml'), stringify(config));
  const { seed, agent, dispatcher, maxFailed } = config;
  return { eval: id, evalDir: record.evalDir, round, seed, agent, dispatcher, maxFailed, cells: cellsOf(record) };
}
