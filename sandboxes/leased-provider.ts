/**
 * A provider for one piece of work: each sandbox that it makes has a lease from before it exists until it is gone. None
 * outlives the work, unless the work leaves them to a later execution. If nobody takes them over, the leases run out,
 * and the sweeper ends the sandboxes.
 */

import { renewing, type SandboxLeases } from './leases.ts';
import { type Sandbox, type SandboxProvider, type SandboxSpec, SandboxUnavailable } from './sandbox.ts';

export class LeasedProvider implements SandboxProvider {
  readonly name: string;
  private readonly inner: SandboxProvider;
  private readonly leases: SandboxLeases;
  private readonly owner: string;
  /** For each sandbox that was made and is not gone: the function that ends its renewals. */
  private readonly held = new Map<string, () => Promise<void>>();
  private readonly making = new Set<string>();
  private over: 'ended' | 'left' | undefined;

  constructor(inner: SandboxProvider, leases: SandboxLeases, owner: string) {
    this.name = inner.name;
    this.inner = inner;
    this.leases = leases;
    this.owner = owner;
  }

  /** Errors: those of the inner provider; `SandboxUnavailable` if the work has ended. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    this.mustGoOn(spec.id);
    this.making.add(spec.id);
    try {
      const sandbox = await this.makeHeld(spec);
      this.mustGoOn(spec.id);
      return sandbox;
    } finally {
      this.making.delete(spec.id);
      // `end` may have run while this sandbox was half-made.
      if (this.over === 'ended') await this.destroy(spec.id);
    }
  }

  connect = (id: string): Promise<Sandbox> => this.inner.connect(id);
  list = (): Promise<string[]> => this.inner.list();

  async destroy(id: string): Promise<void> {
    if (this.over === 'left') this.mustGoOn(id);
    const end = this.held.get(id);
    const renewed = end?.();
    // Before waiting for a renewal in flight: a sandbox that does not answer must not delay its own end.
    await this.inner.destroy(id);
    await renewed;
    if (end === undefined || this.making.has(id)) return;
    await this.leases.release(id);
    this.held.delete(id);
  }

  /**
   * Call it when the work has ended: no more sandboxes are made, and the remaining ones are ended. One that cannot be
   * ended keeps its lease, which runs out.
   */
  async end(): Promise<void> {
    this.over = 'ended';
    await Promise.allSettled([...this.held.keys()].map((id) => this.destroy(id)));
  }

  /** As `end`, but the sandboxes live on until their leases run out: a later execution makes them its own. */
  async leave(): Promise<void> {
    this.over = 'left';
    await Promise.all([...this.held.values()].map((end) => end()));
  }

  private async makeHeld(spec: SandboxSpec): Promise<Sandbox> {
    const { id, ttlSeconds } = spec;
    let made: Sandbox | undefined;
    const renewLease = async (): Promise<void> => void (await this.leases.acquire(id, this.owner, ttlSeconds));
    await renewLease();
    // Making a sandbox may take longer than a lease lasts.
    if (!this.held.has(id))
      this.held.set(
        id,
        renewing(ttlSeconds, () => (made ? this.leases.renew(made, this.owner, ttlSeconds) : renewLease())),
      );
    made = await this.inner.create(spec);
    return made;
  }

  private mustGoOn(id: string): void {
    if (this.over !== undefined) throw new SandboxUnavailable(`sandbox ${id}: the work that needs it has ended`);
  }
}
