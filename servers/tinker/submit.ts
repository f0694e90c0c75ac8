/**
 * Operations are accepted: checked against the session and the tenant's quotas, written to the journal, and only then
 * answered, with the future's id. The same number with the same body is the same future.
 */

import { createHash } from 'node:crypto';
import type { TinkerOperation } from '../../protocol/tinker.ts';
import type { AcceptedOperation } from '../../store/tinker/journal.ts';
import { ApiError } from '../http/api-error.ts';
import { type Call, openSession, sessionOf } from './service.ts';

/**
 * A request's number. Copies of a sampling client begin at random numbers up to 10^18, which a double cannot hold: they
 * get a number of their digits' hash, above 2^52, where the others never come.
 */
export function seqOf(given: number | string): number {
  if (typeof given === 'number' && given < 2 ** 52) return given;
  const bits = createHash('sha256').update(BigInt(given).toString()).digest().readBigUInt64BE() >> 12n;
  return 2 ** 52 + Number(bits);
}

/** Errors: `ApiError` 429 if the tenant has too much waiting: clients wait and send it again. */
async function checkWaiting({ service, tenant }: Call): Promise<void> {
  const { waitingOperations, waitingBytes } = await service.journal.waitingOf(tenant);
  const { waiting, waitingBytes: bytes } = service.quotas;
  if (waitingOperations < waiting && waitingBytes < bytes) return;
  const what = waitingOperations < waiting ? `${bytes} bytes` : `${waiting} requests`;
  throw new ApiError(429, `this API key has ${what} waiting: retry later`, { retryAfterSeconds: 1 });
}

export interface Submission {
  /** The model or sampler, which was put before, and its session. */
  readonly lane: string;
  readonly session: string;
  /** Absent: the next one. */
  readonly seq: number | string | undefined;
  readonly operation: TinkerOperation;
  /** Also in a session that is finished. */
  readonly alsoFinished?: boolean;
  /** Of a request that is not a repetition. */
  readonly check?: () => Promise<void>;
}

/** Errors: `ApiError` 400 for a finished session, 429; `OperationConflict`; those of the disk. */
export async function submit(
  call: Call,
  { lane, session, seq, operation, alsoFinished, check }: Submission,
): Promise<AcceptedOperation> {
  const { service, tenant, digest } = call;
  const number = seq === undefined ? undefined : seqOf(seq);
  const repeated = number === undefined ? undefined : await service.journal.known(lane, number, digest);
  if (repeated !== undefined) return repeated;
  await check?.();
  await (alsoFinished === true ? sessionOf : openSession)(call, session);
  await checkWaiting(call);
  return service.journal.accept({ tenant, lane, seq: number, digest, operation });
}
