/** The process of the command line: wires streams and signals to one call, and ends with its exit code. */

import { whenLauncherEnds } from '#setup/launcher-watch.mjs';
import { runCommandLine } from './run.ts';

/** A terminal and a wrapper may both deliver one Ctrl-C: a second signal within this time counts as the same one. */
const SAME_INTERRUPT_MS = 500;

const interrupt = new AbortController();
let interruptedAt = 0;
function stop(reason: string): void {
  if (interrupt.signal.aborted) return;
  interruptedAt = Date.now();
  interrupt.abort(new Error(reason));
}
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => {
    if (interrupt.signal.aborted && Date.now() - interruptedAt > SAME_INTERRUPT_MS) process.exit(130);
    stop(`stopped by ${name}`);
  });
}
whenLauncherEnds(() => stop('stopped: the process that started this one has ended'));

// The reader closed the pipe (`longhaul rollouts RUN | head`): this is not an error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    // The terminal was closed; the interrupted verb still ends in order.
    if (error.code !== 'EIO') throw error;
  });
}

// Libraries print messages and warnings with console.log, but only the verb may write to stdout.
console.log = console.error;
console.info = console.error;
console.debug = console.error;

const exitCode = await runCommandLine(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  env: process.env,
  cwd: process.cwd(),
  signal: interrupt.signal,
});
// Connections and worker threads may keep the event loop alive: exit as soon as all output is written, also to a pipe.
await new Promise<void>((resolve) => void process.stdout.write('', () => resolve()));
await new Promise<void>((resolve) => void process.stderr.write('', () => resolve()));
process.exit(exitCode);
