/** The error for a service that Longhaul needs and that does not answer: its name and how to start it (exit code 3). */

export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  readonly what: string;
  /** What to run, or to set. */
  readonly remedy: string;

  constructor(what: string, remedy: string, options?: ErrorOptions & { readonly how?: string }) {
    super(`${what} ${options?.how ?? 'is not reachable'}. ${remedy}`, options);
    this.what = what;
    this.remedy = remedy;
  }
}
