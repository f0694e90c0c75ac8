/**
 * The latest responses, for `previous_response_id`. Their number and their bytes are bounded: the one that was used
 * longest ago is forgotten first. They are lost when the server stops.
 */

import type { ResponseItem } from '../apis/responses-items.ts';
import { ApiError } from '../http/api-error.ts';

export interface KeptResponse {
  readonly response: object;
  /** What a response that continues it begins with. */
  readonly items: readonly ResponseItem[];
}

export interface MemoryLimits {
  readonly maxResponses: number;
  readonly maxBytes: number;
}

const DEFAULT_LIMITS: MemoryLimits = { maxResponses: 1000, maxBytes: 64 * 2 ** 20 };

interface Entry {
  /** JSON: a kept object could be changed. */
  readonly text: string;
  readonly bytes: number;
}

export class ResponseMemory {
  readonly #limits: MemoryLimits;
  /** The one that was used longest ago is first. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(limits: MemoryLimits = DEFAULT_LIMITS) {
    this.#limits = limits;
  }

  add(id: string, kept: KeptResponse): void {
    const text = JSON.stringify(kept);
    const bytes = Buffer.byteLength(text);
    this.#entries.set(id, { text, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#limits.maxResponses && this.#bytes <= this.#limits.maxBytes) break;
      this.#drop(oldest);
    }
  }

  get(id: string): KeptResponse | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    return JSON.parse(entry.text) as KeptResponse;
  }

  /** Errors: `ApiError` 404. */
  retrieve(id: string): object {
    return this.#found(id).response;
  }

  /** Errors: `ApiError` 404. */
  delete(id: string): object {
    this.#found(id);
    this.#drop(id);
    return { id, object: 'response', deleted: true };
  }

  #found(id: string): KeptResponse {
    const kept = this.get(id);
    if (kept) return kept;
    throw new ApiError(404, `Response with id ${JSON.stringify(id.slice(0, 80))} not found.`);
  }

  #drop(id: string): void {
    this.#bytes -= this.#entries.get(id)?.bytes ?? 0;
    this.#entries.delete(id);
  }
}
