/**
 * Answers what comes through a sandbox's door: each connection carries one request, which is a model call or is
 * refused. The sandbox keeps what was sent until it is answered, so that the next worker answers what this one did not.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import {
  type DoorNews,
  type DoorState,
  type Sandbox,
  type SandboxDoor,
  SandboxImpossible,
  SandboxLost,
} from '../../sandboxes/sandbox.ts';
import { ApiError } from '../http/api-error.ts';
import { type GatewayRequest, type GatewayResponse, RequestReader, responseBytes } from './http-message.ts';
import {
  type CallingAttempt,
  type GatewayDeps,
  MODEL_NAME,
  refusalResponse,
  RolloutGateway,
} from './rollout-gateway.ts';

/** The port that programs are given, unless something in the sandbox has it. */
const PORT = 8377;
/** How long a connection may take to send its request. */
const REQUEST_WITHIN_MS = 60_000;
/** Before a sandbox that was not reached is asked again. */
const UNREACHED_MS = 500;

const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost)(:\d{1,5})?$/iu;

interface Guest {
  readonly reader: RequestReader;
  readonly since: number;
  full: boolean;
  ended: boolean;
  bytes: number;
  /** Its request was read, or refused. */
  done: boolean;
  /** Aborted when it is gone. */
  readonly gone: AbortController;
}

/** What a program is given, as environment variables of OpenAI's and Anthropic's libraries. */
export function gatewayVariables(base: string, key: string): Readonly<Record<string, string>> {
  return {
    OPENAI_BASE_URL: `${base}/v1`,
    OPENAI_API_BASE: `${base}/v1`,
    OPENAI_API_KEY: key,
    OPENAI_MODEL: MODEL_NAME,
    ANTHROPIC_BASE_URL: base,
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_MODEL: MODEL_NAME,
    LONGHAUL_GATEWAY: base,
  };
}

export interface OpenDoor {
  /** For the program's environment. */
  readonly variables: Readonly<Record<string, string>>;
  /** Answers until `signal` is aborted. Errors: those of the sandbox. */
  serve(signal: AbortSignal): Promise<void>;
}

/** Opens the door of an attempt's sandbox. Errors: `SandboxImpossible` if it has none; those of the sandbox. */
export async function openDoor(sandbox: Sandbox, attempt: CallingAttempt, deps: GatewayDeps): Promise<OpenDoor> {
  const { door } = sandbox;
  if (door === undefined)
    throw new SandboxImpossible('agent.options.gateway true: this kind of sandbox has no door; leave it out');
  const gateway = await RolloutGateway.open(attempt, deps);
  const port = await door.open(PORT);
  return {
    variables: gatewayVariables(`http://127.0.0.1:${port}`, gateway.key),
    serve: (signal) => new DoorKeeper(door, gateway, signal).serve(),
  };
}

class DoorKeeper {
  readonly #door: SandboxDoor;
  readonly #gateway: RolloutGateway;
  readonly #signal: AbortSignal;
  readonly #guests = new Map<number, Guest>();
  #seen = 0;

  constructor(door: SandboxDoor, gateway: RolloutGateway, signal: AbortSignal) {
    this.#door = door;
    this.#gateway = gateway;
    this.#signal = signal;
  }

  async serve(): Promise<void> {
    while (!this.#signal.aborted) {
      const known = [...this.#guests].map(([connection, { bytes, ended, full }]) => ({
        connection,
        bytes,
        ended,
        full,
      }));
      const news = await this.#news(known);
      if (this.#signal.aborted) return;
      for (const { connection, chunk, from, ended, full, gone } of news) {
        this.#seen = Math.max(this.#seen, connection);
        if (gone) this.#leave(connection);
        else this.#receive(connection, chunk, from, { ended, full });
      }
      this.#dismissLate();
    }
  }

  /** A sandbox that cannot be reached for a moment keeps what was sent. Errors: `SandboxLost`. */
  async #news(known: readonly DoorState[]): Promise<readonly DoorNews[]> {
    try {
      return await this.#door.news(this.#seen, known);
    } catch (error) {
      if (error instanceof SandboxLost) throw error;
      await sleep(UNREACHED_MS);
      return [];
    }
  }

  #leave(connection: number): void {
    this.#guests.get(connection)?.gone.abort();
    this.#guests.delete(connection);
  }

  #receive(connection: number, chunk: Uint8Array, from: number, { ended, full }: Pick<Guest, 'ended' | 'full'>): void {
    const guest = this.#guests.get(connection) ?? {
      reader: new RequestReader(),
      since: Date.now(),
      full: false,
      ended: false,
      bytes: 0,
      done: false,
      gone: new AbortController(),
    };
    this.#guests.set(connection, guest);
    guest.ended = ended;
    guest.full = full;
    if (from !== guest.bytes) return;
    guest.bytes += chunk.length;
    if (guest.done) return;
    try {
      const request = guest.reader.push(chunk);
      if (request) this.#take(connection, guest, request);
      else if (full) throw new ApiError(413, 'the request is too long');
      else if (ended) throw new ApiError(400, 'the request ends too early');
    } catch (error) {
      this.#refuse(connection, guest, error);
    }
  }

  #take(connection: number, guest: Guest, request: GatewayRequest): void {
    const host = request.headers.get('host');
    if (host !== undefined && !LOOPBACK_HOST.test(host))
      throw new ApiError(421, 'nothing but the model is behind this address');
    guest.done = true;
    this.#gateway
      .answer(`door-${connection}`, request, this.#signal, AbortSignal.any([this.#signal, guest.gone.signal]))
      .then((response) => this.#send(connection, response))
      // The next server of the door answers it.
      .catch(() => undefined);
  }

  /**
   * Until the sandbox has it: the program waits for nothing else. Repeated answers do no harm, the first one counts.
   */
  async #send(connection: number, response: GatewayResponse): Promise<void> {
    const bytes = responseBytes(response);
    while (!this.#signal.aborted && this.#guests.has(connection)) {
      try {
        await this.#door.answer(connection, bytes);
        return;
      } catch (error) {
        if (error instanceof SandboxLost) return;
        await sleep(UNREACHED_MS);
      }
    }
  }

  #refuse(connection: number, guest: Guest, error: unknown): void {
    guest.done = true;
    void this.#send(connection, refusalResponse(error));
  }

  #dismissLate(): void {
    for (const [connection, guest] of this.#guests)
      if (!guest.done && Date.now() - guest.since > REQUEST_WITHIN_MS)
        this.#refuse(connection, guest, new ApiError(408, 'the request took too long'));
  }
}
