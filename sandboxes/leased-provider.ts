/**
 * A provider for one piece of work: each sandbox that it makes is under a lease from before it exists until it is gone,
 * and none outlives the work. Of a process that is killed in the middle, the leases run out, and the sweeper ends what
 * they name.
 */

import { renewing, type SandboxLeases } from './leases.ts';
import { type Sandbox, type SandboxProvider, type SandboxSpec, SandboxUnavailable } from './sandbox.ts';

export class LeasedProvider implements SandboxProvider {
  readonly name: string;
  private readonly inner: SandboxProvider;
  private readonly leases: SandboxLeases;
  private readonly owner: string;
  /** Of each sandbox that was made and is not gone: ends its renewals. */
  private readonly held = new Map<string, () => Promise<void>>();
  private readonly making = new Set<string>();
  private over = false;

  constructor(inner: SandboxProvider, leases: SandboxLeases, owner: string) {
    this.name = inner.name;
    this.inner = inner;
    this.leases = leases;
    this.owner = owner;
  }

  /** Errors: those of the provider that it is made of; `SandboxUnavailable` when the work is over. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    this.mustGoOn(spec.id);
    this.making.add(spec.id);
    try {
      const sandbox = await this.makeHeld(spec);
      this.mustGoOn(spec.id);
      return sandbox;
    } finally {
      this.making.delete(spec.id);
      // Whoever ended the work found it half-made.
      if (this.over) await this.destroy(spec.id);
    }
  }

  connect = (id: string): Promise<Sandbox> => this.inner.connect(id);
  list = (): Promise<string[]> => this.inner.list();

  async destroy(id: string): Promise<void> {
    const end = this.held.get(id);
    const renewed = end?.();
    // Before the renewal under way is waited for: a sandbox that does not answer does not hold up its own end.
    await this.inner.destroy(id);
    await renewed;
    if (end === undefined || this.making.has(id)) return;
    await this.leases.release(id);
    this.held.delete(id);
  }

  /** The work is over: nothing more is made, and what is left is ended. What cannot be ended is left to its lease. */
  async end(): Promise<void> {
    this.over = true;
    await Promise.allSettled([...this.held.keys()].map((id) => this.destroy(id)));
  }

  private async makeHeld(spec: SandboxSpec): Promise<Sandbox> {
    const { id, ttlSeconds } = spec;
    let made: Sandbox | undefined;
    const renewLease = async (): Promise<void> => void (await this.leases.acquire(id, this.owner, ttlSeconds));
    await renewLease();
    // The making may take longer than a lease lasts.
    if (!this.held.has(id))
      this.held.set(
        id,
        renewing(ttlSeconds, () => (made ? this.leases.renew(made, this.owner, ttlSeconds) : renewLease())),
      );
    made = await this.inner.create(spec);
    return made;
  }

  private mustGoOn(id: string): void {
    if (this.over) throw new SandboxUnavailable(`sandbox ${id}: what it was made for is over`);
  }
}
