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
async function checkWaiting({ service, tenant }: Call, kind: TinkerOperation['kind']): Promise<void> {
  const { waitingOperations, waitingBytes, waitingSamples, waitingSampleBytes } =
    await service.journal.waitingOf(tenant);
  const { waiting, waitingBytes: most } = service.quotas;
  const isSample = kind === 'sample';
  const [count, bytes] = isSample ? [waitingSamples, waitingSampleBytes] : [waitingOperations, waitingBytes];
  if (count < waiting && bytes < most) return;
  const what = `${isSample ? 'samples' : 'requests to models'}${count < waiting ? ` of ${most} bytes` : ''}`;
  throw new ApiError(429, `this API key has ${count < waiting ? '' : `${waiting} `}${what} waiting: retry later`, {
    retryAfterSeconds: 1,
  });
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

/**
 * The future of a request that was accepted before: its repetition is not checked again, since quotas may be full by
 * now, the session finished, and what it reads deleted. Errors: `ApiError` 404 for a session that is not the caller's.
 */
export async function repeated(
  call: Call,
  {
    lane,
    session,
    seq,
  }: { readonly lane: string; readonly session: string; readonly seq: number | string | undefined },
): Promise<AcceptedOperation | undefined> {
  if (seq === undefined) return undefined;
  await sessionOf(call, session);
  return call.service.journal.known(lane, seqOf(seq), call.digest);
}

/** Errors: `ApiError` 400 for a finished session, 429; `OperationConflict`; those of the disk. */
export async function submit(
  call: Call,
  { lane, session, seq, operation, alsoFinished, check }: Submission,
): Promise<AcceptedOperation> {
  const { service, tenant, digest } = call;
  const number = seq === undefined ? undefined : seqOf(seq);
  const known = number === undefined ? undefined : await service.journal.known(lane, number, digest);
  if (known !== undefined) return known;
  await check?.();
  await (alsoFinished === true ? sessionOf : openSession)(call, session);
  await checkWaiting(call, operation.kind);
  return service.journal.accept({ tenant, lane, seq: number, digest, operation });
}
