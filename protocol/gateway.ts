/**
 * Model calls of a program that is the agent: what its gateway stores of a call, the update by which the rollout
 * samples it, and the checks of that update. Large things are in the store: the update names them. Pure.
 */

import type { Message, ToolSchema } from './message.ts';
import { isCount, isFields, type ProgramCard, wrong } from './program.ts';
import type { ObjectRef } from './stages.ts';

/** Name of the rollout's update. */
export const CALL_MODEL = 'callModel';

/** A further type of failures of the update, beside those in `REFUSED`: the rollout may make no further call. */
export const BUDGET_SPENT = 'BudgetSpent';

/** Calls of one rollout that a gateway sends at once. The server lets ten updates wait. */
export const CALLS_AT_ONCE = 8;

/** One model call, by its request in the store (`keys.call`). */
export interface ModelCall {
  readonly attempt: number;
  /** Names the call in its attempt. A repeated call has the same turn and the same answer. */
  readonly call: string;
  /** Digest of the messages and tools: equal prompts differ in their number. */
  readonly asked: string;
}

/** The turn whose record has the answer. */
export interface ModelCallAnswer {
  readonly turn: number;
}

/** What a policy is asked, however the API writes it. An object in the store. */
export interface CallRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSchema[];
  /** Absent: as many as the rollout's sampling allows. */
  readonly maxTokens?: number;
  /** Texts that end the answer. Absent: none. */
  readonly stop?: readonly string[];
}

/** The record of a call that a gateway received. */
export interface CallRecord {
  /** A `CallRequest` as JSON. */
  readonly artifact: ObjectRef;
  readonly asked: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** The key with which a program proves its attempt to a gateway. */
export interface GatewayKeyRecord {
  readonly key: string;
}

/** Present in the record of a turn that a program asked for through a gateway. */
export interface CallOfTurn {
  readonly call: string;
  readonly asked: string;
  /** Digest of all messages up to the answer, as a later request would have them. Absent: there is no answer. */
  readonly said?: string;
  /** The turn whose context it continues, token by token. 0: none. */
  readonly follows: number;
  /** Tokens of the prompt. */
  readonly promptTokens: number;
  /** The request could not be answered: the program gets this error. */
  readonly refused?: {
    readonly code: 'context_length_exceeded' | 'invalid_messages' | 'unsupported_stop';
    readonly message: string;
  };
}

const MOST_NAME = 128;
/** Texts of one call that end its answer, and bytes of each: the engine looks for all of them at each token. */
const MOST_STOPS = 16;
const MOST_STOP_BYTES = 256;

/** What is wrong with the texts that end an answer; `undefined`: nothing. */
export function problemOfStops(stops: readonly string[]): string | undefined {
  if (stops.length > MOST_STOPS) return `give at most ${MOST_STOPS} texts`;
  const isLong = stops.some((stop) => new TextEncoder().encode(stop).length > MOST_STOP_BYTES);
  return isLong ? `a text may have at most ${MOST_STOP_BYTES} bytes` : undefined;
}

/** What is wrong with the shape of a call; `undefined`: nothing. */
export function problemOfCall(given: unknown, card: ProgramCard | null): string | undefined {
  if (!isFields(given)) return wrong('call', given, 'give { attempt, call, asked }');
  const { attempt, call, asked } = given;
  if (!isCount(attempt, 1)) return wrong('attempt', attempt, 'give the attempt’s number, from 1');
  if (typeof call !== 'string' || call === '' || call.length > MOST_NAME)
    return wrong('call', call, `give a name of at most ${MOST_NAME} characters`);
  if (typeof asked !== 'string' || !/^[0-9a-f]{16,64}$/u.test(asked)) return wrong('asked', asked, 'give a digest');
  if (card?.gateway !== true) return wrong('agent.options.gateway', false, 'set true: this rollout takes no calls');
  return undefined;
}
