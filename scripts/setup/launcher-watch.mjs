/**
 * Finds the processes that started this one and wait for it: Longhaul's launchers, and npm with its shell. That shell
 * does not pass signals on, so a signal to `npx longhaul serve` would leave the server running. Therefore the process
 * itself checks whether its launchers still run.
 */

import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

const POLL_MS = 250;
/** Most processes in the chain: npm, its shell, and launchers between them. */
const LEVELS = 4;
/** Set by a launcher for the process that it waits for: the launchers' pids, separated by commas. */
export const LAUNCHER_VARIABLE = 'LONGHAUL_LAUNCHER';

/** `{ parent, command }` of a process. `undefined` if it has ended, or the system has no `/proc`. */
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
/** True for npm's way to run a command. A user's script may end and leave this process running on purpose. */
const isShellOfNpm = (command) => /^(\S*\/)?(ba|da)?sh -c /.test(command);

/** The processes that wait for this one, the nearest first: up to npm, or to Longhaul's last launcher. */
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

/** Calls `end` once when a launcher has ended. The returned function stops the check, which keeps no process alive. */
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
 * Waits for `child`, passes signals on to it, and ends with its exit code. If a launcher of this process has ended, the
 * child is ended too.
 */
export function endWith(child) {
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
  whenLauncherEnds(() => child.kill('SIGTERM'));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 1)));
}

/** The environment of a child, so that it notices when this process has ended. */
export function launchedEnv(env = process.env) {
  return { ...env, [LAUNCHER_VARIABLE]: [env[LAUNCHER_VARIABLE], process.pid].filter(Boolean).join(',') };
}
