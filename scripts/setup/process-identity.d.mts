export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}
export function startTimeOf(pid: number): string | undefined;
export function ownIdentity(): ProcessIdentity;
export function isAlive(identity: ProcessIdentity): boolean;
export function standingOf(identity: ProcessIdentity): 'running' | 'stopped' | 'zombie' | 'gone';
