/**
 * The directory for each way to name a policy in a sweep. A sweep resolves its policies once, when it starts, and keeps
 * its own copy of a run's checkpoint: the run's retention cannot remove it.
 */

import { parsePolicyReference } from '../../../config/policy-reference.ts';
import type { ResolvedReference, SweepReference } from '../../../protocol/eval.ts';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import type { Store } from '../../../store/store.ts';
import { backendOfUri, EMBEDDED } from '../../../trainer/backends/registry.ts';
import { resolveModel } from '../../../trainer/hub/resolve-model.ts';
import type { ObjectRef } from '../../../protocol/stages.ts';
import type { Endpoint } from '../../../protocol/endpoint.ts';
import { fingerprintOf } from '../../../trainer/checkpoints/policy-files.ts';
import { fileUri, pathOf, schemeOf } from '../../../protocol/policy-uri.ts';
import type { PolicyRef, ScriptedPolicy } from '../../../protocol/policy.ts';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { checkPolicy, describedBy } from '../open-policy.ts';
import type { RunRecord, StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { pinCheckpoint } from './pin-checkpoint.ts';

async function checkpointsOf(run: string, field: string, text: string, store: Store) {
  const record = await store.get<RunRecord>(keys.run(run));
  const steps = (await store.list<StepEntry>(`step:${run}/`)).map(({ value }) => value);
  if (record) return { base: record.policy.base, steps };
  const known = (await store.list<RunRecord>('run:')).map(({ value }) => value.run);
  throw new UserInputError(
    field,
    text,
    known.length > 0 ? `give one of the runs ${known.join(', ')}` : 'there is no run here',
  );
}

/** The policy of a reference, before a copy is made. */
export interface Found {
  readonly ref: PolicyRef | ScriptedPolicy;
  readonly from?: { readonly run: string; readonly step: number };
}

/** Errors: `UserInputError` for a run or a step that does not exist. */
export async function findPolicy(text: string, field: string, store: Store): Promise<Found> {
  const reference = parsePolicyReference(text);
  if (reference.kind === 'starter')
    return { ref: { uri: fileUri(join(packageRoot, 'examples', 'starter')), version: 0 } };
  if (reference.kind === 'scripted') return { ref: { scripted: reference.scripted, version: 0 } };
  if (reference.kind === 'replay')
    throw new UserInputError(field, text, 'play rollouts again in an eval: policies: [replay:RUN]');
  if (reference.kind === 'model') {
    const { model } = reference;
    const isFolder = EMBEDDED.schemes.includes(schemeOf(model) ?? 'file');
    return { ref: { uri: isFolder ? fileUri(await resolveModel(model)) : model, version: 0 } };
  }
  const { run } = reference;
  const { base, steps } = await checkpointsOf(run, field, text, store);
  const step = reference.kind === 'latest' ? (steps.at(-1)?.record.step ?? 0) : reference.step;
  if (step === 0) return { ref: { uri: base, version: 0 } };
  const entry = steps.find(({ record }) => record.step === step);
  if (!entry) throw new UserInputError(field, text, `run ${run} has made ${steps.length} steps; give one of them`);
  return { ref: entry.policy, from: { run, step } };
}

/** Errors: `UserInputError` for a tokenizer that does not exist. */
export async function checkEndpoint({ tokenizer }: Endpoint, field: string): Promise<void> {
  if (tokenizer === undefined) return;
  await access(join(tokenizer, 'tokenizer.json')).catch(() => {
    throw new UserInputError(
      `${field}.endpoint.tokenizer`,
      tokenizer,
      "give a directory with the served model's tokenizer.json",
    );
  });
}

/**
 * The policy in a directory that does not change while the eval's folder exists, or a state of another backend.
 * `modules`: digest of the eval's modules, imported.
 * Errors: `UserInputError` for what does not exist. Any other error means that a checkpoint was removed while it was
 * linked: when this is retried, `latest:RUN` is the next one.
 */
export async function resolvePolicy(
  policy: SweepReference,
  evalDir: string,
  store: Store,
  modules?: ObjectRef,
): Promise<ResolvedReference> {
  const field = `policies.${policy.name}`;
  const { ref, from } = await findPolicy(policy.policy, field, store);
  if ('scripted' in ref) return { ...policy, ref, fingerprint: ref.scripted };
  const backend = backendOfUri(ref.uri, modules, field);
  if (backend !== undefined) {
    // Its states never change, and only it could remove one.
    const { digest } = await describedBy(backend, ref.uri, field);
    const held = { uri: ref.uri, version: ref.version, digest };
    return { ...policy, ref: held, fingerprint: digest, ...(from && { from }) };
  }
  const there = pathOf(ref.uri, field);
  if (from === undefined) {
    await checkPolicy(ref.uri, field);
    const fingerprint = await fingerprintOf(there);
    return { ...policy, ref: { ...ref, digest: fingerprint }, fingerprint };
  }
  const dir = await pinCheckpoint(there, join(evalDir, 'policies', `${from.run}@${from.step}`), () => {
    if (parsePolicyReference(policy.policy).kind === 'latest')
      return new Error(`${there} was removed while it was linked`);
    return new UserInputError(
      field,
      policy.policy,
      `the run no longer has that checkpoint (${there}); give another step`,
    );
  });
  const fingerprint = await fingerprintOf(dir);
  return { ...policy, ref: { uri: fileUri(dir), version: ref.version, digest: fingerprint }, fingerprint, from };
}
