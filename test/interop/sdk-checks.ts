/**
 * Thinking Machines', OpenAI's and Anthropic's own Python SDKs against Longhaul's servers: the Tinker API over a toy
 * engine, and `serve` with the starter. Each SDK is pinned, in an environment of its own.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { packageRoot } from '#setup/paths.mjs';
import { type Environment, readByProjects, type Reading } from './export-environments.ts';

const TINKER: Environment = { part: 'tinker', packages: ['tinker==0.38.0'] };
const CLIENTS: Environment = { part: 'openai and anthropic', packages: ['openai==3.57.0', 'anthropic==2.13.0'] };
const URL_IN_LINE = /http:\/\/[\w.]+:\d+/u;
const here = (name: string) => path.join(import.meta.dirname, name);

interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

/** Waits for the first line with a URL. Errors: the process ends without one. */
async function serverOf(child: ChildProcess, stop: () => void): Promise<Server> {
  // `serve` says on stderr where it is.
  const input = child.stdout ?? child.stderr;
  if (input === null) throw new Error('the server has no output');
  const exited = once(child, 'exit');
  const found = Promise.withResolvers<string>();
  createInterface({ input }).on('line', (line) => {
    const [url] = URL_IN_LINE.exec(line) ?? [];
    if (url !== undefined) found.resolve(url);
  });
  const url = await Promise.race([found.promise, exited.then(() => undefined)]);
  if (url === undefined) throw new Error('the server ended before it listened');
  return {
    url,
    stop: async () => {
      stop();
      await exited;
    },
  };
}

function startToyTinker(): Promise<Server> {
  const child = spawn(process.execPath, [here('toy-tinker.ts')], { stdio: ['pipe', 'pipe', 'inherit'] });
  return serverOf(child, () => child.stdin.end());
}

function startCompletions(folder: string): Promise<Server> {
  const program = path.join(packageRoot, 'bin', 'longhaul.mjs');
  const args = [program, 'serve', '--model', 'starter', '--port', '0', '--grace-seconds', '1'];
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  return serverOf(child, () => child.kill('SIGTERM'));
}

const environment = (more: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  ...process.env,
  PYTHONWARNINGS: 'ignore',
  HF_HUB_OFFLINE: '1',
  TINKER_TELEMETRY: '0',
  ...more,
});

/** What was run, and what could not be installed. Errors: a failed check; its lines are on this process's output. */
export async function checkSdks(folder: string): Promise<readonly Reading[]> {
  const run = (env: NodeJS.ProcessEnv, one: Environment, args: readonly string[]) =>
    readByProjects(
      environment(env),
      (python, _part, own) =>
        execFileSync(python, args, { env: own, stdio: ['ignore', 'inherit', 'inherit'], timeout: 120_000 }),
      [one],
    ).map((reading) => ({ ...reading, part: `${reading.part} (SDK)` }));
  const tinker = await startToyTinker();
  const ran: Reading[] = [];
  try {
    const env = { TINKER_BASE_URL: tinker.url, TINKER_API_KEY: 'tml-interop' };
    ran.push(...run(env, TINKER, [here('tinker_sdk.py'), path.join(folder, 'tinker-sdk.json')]));
  } finally {
    await tinker.stop();
  }
  const completions = await startCompletions(folder);
  try {
    ran.push(...run({}, CLIENTS, [here('sdks.py'), `${completions.url}/v1`, 'starter']));
  } finally {
    await completions.stop();
  }
  return ran;
}
