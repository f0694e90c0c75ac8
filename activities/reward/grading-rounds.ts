/**
 * The rounds of an attempt's grading. A round ends with a verdict or with a failure, never with its worker: an
 * execution that follows a lost one grades in the same sandboxes under the same call ids, so it attaches to what the
 * lost one started. A round that failed is recorded before its sandboxes end, and the next one has others. Of several
 * executions that are alive, the newest alone makes and ends sandboxes and records a verdict.
 */

import { CancelledFailure } from '@temporalio/activity';
import type { Verdict, RewardInput } from '../../protocol/stages.ts';
import { classOfError, FAILURES } from '../../protocol/failure-policy.ts';
import type { UngradedRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import { GRADER_LEASE } from '../../sandboxes/leases.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import { classifyDiskError, isTransient } from '../../store/disk-errors.ts';
import type { Lease } from '../../store/store.ts';
import { type SandboxPlace, withFurtherSandboxes } from '../task-context.ts';
import { checkWorkersLost } from '../tries.ts';

export type Graded = Extract<Verdict, { code: 'graded' }>;

/** The grader, not the policy, is to blame: retried, then masked. */
export class GraderFailed extends Error {
  override readonly name = 'GraderFailed';
}

/** One round, as an execution sees it. */
export interface Round {
  /** Counts from 1. */
  readonly number: number;
  /** Prefix of the round's call ids and of its sandboxes' ids. */
  readonly id: string;
  /** Makes further sandboxes. Errors: `GraderFailed` if a newer execution has started. */
  readonly provider: SandboxProvider;
}

const executionOf = (input: RewardInput): string => `reward:${attemptKey(input)}`;
const prefixOf = (input: RewardInput): string => `${attemptKey(input)}/grade-`;

/**
 * Ends the sandboxes of the rounds up to `last` on this host. A killed worker leaves them behind, and they would take
 * room until their leases expire. A sandbox that cannot be ended now ends with its lease.
 */
export async function endRounds(
  input: RewardInput,
  last: number,
  { store, provider, host }: SandboxPlace,
): Promise<void> {
  if (last === 0) return;
  const prefix = prefixOf(input);
  const isOver = ({ id, host: its }: Lease) =>
    its === host && id.startsWith(prefix) && Number.parseInt(id.slice(prefix.length), 10) <= last;
  const ends = (await store.leases(GRADER_LEASE)).filter(isOver).map(async ({ id }) => {
    await provider.destroy(id);
    await store.releaseLease(id);
  });
  await Promise.allSettled(ends);
}

/** As `inner`, for as long as no newer execution has started: that one uses the same sandboxes. */
function fenced(inner: SandboxProvider, isNewest: () => Promise<boolean>): SandboxProvider {
  const guard = async () => {
    if (!(await isNewest())) throw new GraderFailed('another execution has started to grade this');
  };
  return {
    name: inner.name,
    create: async (spec) => {
      await guard();
      return inner.create(spec);
    },
    connect: (id) => inner.connect(id),
    destroy: async (id) => {
      await guard();
      await inner.destroy(id);
    },
    list: () => inner.list(),
  };
}

/** What the server says if nobody waits for an execution: it was cancelled, or its workflow has ended. */
const UNWANTED: ReadonlySet<string> = new Set(['CANCELLED', 'NOT_FOUND']);

/** True if the server gave this execution up, or its worker stops: a retry continues the round. */
function isGivenUp({ reason }: AbortSignal): boolean {
  return reason instanceof CancelledFailure && !UNWANTED.has(reason.message);
}

/** True if an execution that ended with `error` leaves its round to a retry: the grading itself has not failed. */
async function continues(error: unknown, signal: AbortSignal, isNewest: () => Promise<boolean>): Promise<boolean> {
  if (isGivenUp(signal) || isTransient(classifyDiskError(error, 'the disk of this worker'))) return true;
  if (error instanceof Error && FAILURES[classOfError(error.name)].alwaysHolds) return true;
  return !(await isNewest());
}

/** The failure ends the round. */
async function failed(error: unknown, input: RewardInput, round: number, { store }: SandboxPlace): Promise<void> {
  const { name, message } = error instanceof Error ? error : { name: 'unknown', message: String(error) };
  await store.putOnce<UngradedRecord>(keys.ungraded(input, round), {
    error: name,
    message: message.slice(0, 300),
    at: new Date().toISOString(),
  });
}

/**
 * Runs one execution of the grading and records its verdict. Errors: those of `grade`; `GraderFailed` if a newer
 * execution has started and has no verdict yet.
 */
export async function gradeRound(
  input: RewardInput,
  place: SandboxPlace,
  signal: AbortSignal,
  grade: (round: Round) => Promise<Graded>,
): Promise<Graded> {
  const { store } = place;
  await checkWorkersLost(store);
  const execution = await store.begin(executionOf(input));
  const number = (await store.list(keys.ungradedRounds(input))).length + 1;
  await endRounds(input, number - 1, place);
  const isNewest = async () => (await store.begun(executionOf(input))) === execution;
  let leaves = false;
  const graded = withFurtherSandboxes(
    place,
    input.rollout,
    async (further) => {
      try {
        const verdict = await grade({ number, id: `${prefixOf(input)}${number}`, provider: fenced(further, isNewest) });
        if (await isNewest()) return await store.putOnce(keys.verdict(input), verdict);
        throw new GraderFailed('another execution has started to grade this');
      } catch (error) {
        // Until it is known to have failed, the round continues.
        leaves = true;
        leaves = await continues(error, signal, isNewest);
        const known = leaves ? await store.get<Graded>(keys.verdict(input)) : undefined;
        if (known) return known;
        if (!leaves && !(signal.reason instanceof CancelledFailure)) await failed(error, input, number, place);
        throw error;
      }
    },
    () => leaves,
  );
  return graded.finally(async () => {
    if (!leaves) await endRounds(input, number, place);
  });
}
