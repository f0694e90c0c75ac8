/** One part that was checked: found, or missing with its remedy. */

export interface Finding {
  readonly name: string;
  readonly state: 'ok' | 'missing';
  readonly required: boolean;
  /** A version, path or address; absent when missing. */
  readonly found?: string;
  readonly remedy?: string;
}

/** `ok` with what was found, else `missing` with the remedy. */
export function finding(name: string, required: boolean, found: string | undefined, remedy: string): Finding {
  return found === undefined ? { name, state: 'missing', required, remedy } : { name, state: 'ok', required, found };
}
