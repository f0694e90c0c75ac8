/**
 * Who started this process, and waits for it: a launcher of ours, and npm with its shell. That shell passes no signal on,
 * so that a signal to `npx longhaul serve` would leave the server running: the process itself notices who has gone.
 */

import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

const POLL_MS = 250;
/** npm, its shell, and launchers in between. */
const LEVELS = 4;
/** Set by a launcher for the process that it waits for: the launchers' pids, with commas. */
export const LAUNCHER_VARIABLE = 'LONGHAUL_LAUNCHER';

/** `{ parent, command }` of a process; `undefined` where it has ended, or the system does not say. */
function look(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    return { parent, command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') };
  } catch {
    return undefined;
  }
}

const isNpm = (command) => /^npm |\/np[mx](-cli\.js)?( |$)/.test(command);
/** How npm runs what it was asked for. A script of somebody's own may end and leave this process running on purpose. */
const isShellOfNpm = (command) => /^(\S*\/)?(ba|da)?sh -c /.test(command);

/** The processes that wait for this one, the nearest first: up to npm, or to the last launcher of ours. */
export function launchersOf(pid = process.ppid, env = process.env) {
  const chain = [];
  let found = 0;
  for (let current = pid; chain.length < LEVELS && current > 1;) {
    const seen = look(current);
    if (seen === undefined) break;
    chain.push(current);
    const isOurs = env[LAUNCHER_VARIABLE]?.split(',').includes(String(current)) ?? false;
    if (isOurs || isNpm(seen.command)) found = chain.length;
    if (!isOurs && !isShellOfNpm(seen.command)) break;
    current = seen.parent;
  }
  return chain.slice(0, found);
}

/** Calls `end` once when one of them has gone, unless what it returns was called before. Keeps no process alive. */
export function whenLauncherEnds(end, env = process.env) {
  const chain = launchersOf(process.ppid, env);
  if (chain.length === 0) return () => undefined;
  const isWhole = () =>
    chain.every((pid, index) => (index === 0 ? process.ppid : look(chain[index - 1])?.parent) === pid);
  const timer = setInterval(() => {
    if (isWhole()) return;
    clearInterval(timer);
    end();
  }, POLL_MS);
  timer.unref();
  return () => clearInterval(timer);
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Waits for `child`, to which signals are passed on, and ends as it did. Where who started this process has gone, the
 * child is ended.
 */
export function endWith(child) {
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
  whenLauncherEnds(() => child.kill('SIGTERM'));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 1)));
}

/** The environment of a child of this process, so that it notices when this process has gone. */
export function launchedEnv(env = process.env) {
  return { ...env, [LAUNCHER_VARIABLE]: [env[LAUNCHER_VARIABLE], process.pid].filter(Boolean).join(',') };
}
