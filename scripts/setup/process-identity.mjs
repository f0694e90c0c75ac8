/** Identifies a process uniquely, by pid and start time: a pid alone may be reused. */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

let bootId;

/** The start time of process `pid`, in the system's form. `undefined` if no such process runs (a zombie does not). */
export function startTimeOf(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  const seen = look(pid);
  return seen === undefined || seen.state === 'Z' || seen.state === 'X' ? undefined : seen.startTime;
}

/** This process as `{ pid, startTime }`. */
export function ownIdentity() {
  return { pid: process.pid, startTime: startTimeOf(process.pid) ?? '' };
}

/** True if the process `identity` still runs. */
export function isAlive(identity) {
  return identity.startTime !== '' && startTimeOf(identity.pid) === identity.startTime;
}

/** The state of the process `identity`. A stopped one (SIGSTOP, a debugger) exists but does nothing. */
export function standingOf(identity) {
  const seen =
    Number.isInteger(identity.pid) && identity.pid > 0 && identity.startTime !== '' ? look(identity.pid) : undefined;
  if (seen === undefined || seen.startTime !== identity.startTime || seen.state === 'X') return 'gone';
  if (seen.state === 'Z') return 'zombie';
  return seen.state === 'T' || seen.state === 't' ? 'stopped' : 'running';
}

function look(pid) {
  try {
    return process.platform === 'linux' ? linuxLook(pid) : psLook(pid);
  } catch {
    return undefined;
  }
}

function linuxLook(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The command in parentheses may contain spaces and parentheses: count fields after the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  return { state: fields[0], startTime: `${bootId}/${fields[19]}` };
}

function psLook(pid) {
  const [state, ...started] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .trim()
    .split(/\s+/);
  return { state: state?.[0], startTime: started.join(' ') };
}
