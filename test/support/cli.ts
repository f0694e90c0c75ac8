/** The command line as users run it: the real program in a process of its own. Questions by the dozen are put to its verbs in this one. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { runCommandLine } from '../../cli/run.ts';

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const program = fileURLToPath(new URL('../../bin/longhaul.mjs', import.meta.url));

/** Runs `longhaul ARGS` in `cwd`; whatever the exit code is, it returns. */
export function longhaul(args: readonly string[], cwd: string, timeoutMs = 300_000): Promise<CliResult> {
  const env = { ...process.env, LONGHAUL_HOME: `${cwd}/.longhaul` };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, ...args],
      { cwd, env, timeout: timeoutMs, maxBuffer: 1 << 28 },
      (error, stdout, stderr) => {
        resolve({ code: error ? (typeof error.code === 'number' ? error.code : 1) : 0, stdout, stderr });
      },
    );
  });
}

/** The JSON document of a verb that must succeed. */
export async function longhaulJson<T>(args: readonly string[], cwd: string): Promise<T> {
  const { code, stdout, stderr } = await longhaul([...args, '--json'], cwd);
  if (code !== 0) throw new Error(`longhaul ${args.join(' ')} ended with ${code}: ${stderr.slice(-2000)}`);
  return JSON.parse(stdout) as T;
}

/** The same document in this process, of a verb that only reads records: a program costs half a second of a processor. */
export async function askedHere<T>(args: readonly string[], cwd: string): Promise<T> {
  let [out, err] = ['', ''];
  const code = await runCommandLine([...args, '--json'], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: { ...process.env, LONGHAUL_HOME: `${cwd}/.longhaul` },
    cwd,
    signal: new AbortController().signal,
  });
  if (code !== 0) throw new Error(`longhaul ${args.join(' ')} ended with ${code}: ${err.slice(-2000)}`);
  return JSON.parse(out) as T;
}
