import type { ProcessIdentity } from './process-identity.mjs';

export interface LockHolder extends ProcessIdentity {
  readonly since: string;
}
export function tryLock(path: string): (() => void) | undefined;
export function lockHolder(path: string): LockHolder | undefined;
export function withLock<T>(path: string, onWait: (holder: LockHolder) => void, work: () => Promise<T>): Promise<T>;
