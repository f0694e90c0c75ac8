/** Names a process for good: a pid together with its start time is never reused, while a pid alone is. */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

let bootId;

/** What tells this life of `pid` from another one; `undefined` when no such process runs (a zombie does not). */
export function startTimeOf(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return process.platform === 'linux' ? linuxStartTime(pid) : psStartTime(pid);
}

/** This process as `{ pid, startTime }`. */
export function ownIdentity() {
  return { pid: process.pid, startTime: startTimeOf(process.pid) ?? '' };
}

/** Whether the very process that was noted as `identity` still runs. */
export function isAlive(identity) {
  return identity.startTime !== '' && startTimeOf(identity.pid) === identity.startTime;
}

function linuxStartTime(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The command in parentheses may hold spaces and parentheses: count fields from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    return `${bootId}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

function psStartTime(pid) {
  try {
    const [state, ...started] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim().split(/\s+/);
    return state === undefined || state.startsWith('Z') ? undefined : started.join(' ');
  } catch {
    return undefined;
  }
}
