/** A process is identified by its pid and its start time, since the kernel may have reused the pid. */

import { readFileSync } from 'node:fs';

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks since boot, as the kernel prints them. */
  readonly start: string;
}

interface Stat {
  readonly state: string;
  readonly parent: number;
  readonly start: string;
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0] ?? '', parent: Number(fields[1]), start: fields[19] ?? '' };
  } catch {
    return undefined;
  }
}

/** The identity of a live process; `undefined` if there is none (a zombie counts as ended). */
export function identify(pid: number): ProcessIdentity | undefined {
  const stat = statOf(pid);
  return stat === undefined || stat.state === 'Z' || stat.state === 'X' ? undefined : { pid, start: stat.start };
}

export const parentOf = (pid: number): number | undefined => statOf(pid)?.parent;

export const isAlive = (process: ProcessIdentity): boolean => identify(process.pid)?.start === process.start;

export function parseIdentity(text: string): ProcessIdentity | undefined {
  const match = /^(\d+) (\d+)\n$/u.exec(text);
  return match?.[1] === undefined || match[2] === undefined ? undefined : { pid: Number(match[1]), start: match[2] };
}

export const formatIdentity = (process: ProcessIdentity): string => `${process.pid} ${process.start}\n`;

/** Pids of the children of a process's main thread; empty if the kernel does not list them. */
export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Sends SIGKILL if the pid still belongs to the same process. */
export function killProcess(target: ProcessIdentity): void {
  if (!isAlive(target)) return;
  try {
    process.kill(target.pid, 'SIGKILL');
  } catch {
    // It ended between the check and the signal.
  }
}
