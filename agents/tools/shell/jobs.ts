/**
 * `jobs`: commands that run beside the shell. The policy starts one, reads what it has printed, writes to its input,
 * and interrupts or stops it. A job has its own process group and its files in the sandbox; nothing of it is in the
 * worker.
 */

import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { type Arguments, ToolArgumentError } from '../schema/arguments.ts';
import { normalizeOutput, truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool, type ToolContext } from '../tool.ts';

const FOLDER = '/tmp/.jobs';
/** Jobs of one sandbox: each has a folder, and may have processes. */
const MOST_JOBS = 32;
const READ_BYTES = 256 << 10;
const INPUT_BYTES = 4096;
/** Seconds that `read` waits by default. */
const WAIT = 1;
/** Time for the commands around a wait. */
const OWN_MS = 10_000;

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/**
 * Runs in the session of its own: `$1` is the job's folder, `$2` its command. Bash ignores SIGINT for what it starts in
 * the background, so the command gets it back. The pipe is open for writing here too: its reader never meets an end.
 */
const WRAPPER = `echo $$ >"$1/pid"; trap : INT TERM; reset=; env --default-signal=INT,QUIT true 2>/dev/null && reset="env --default-signal=INT,QUIT"
$reset bash -c "$2" <>"$1/in" >"$1/out" 2>&1; code=$?; echo "$code" >"$1/code.new"; mv "$1/code.new" "$1/code"`;

/** Prints the job's number. The shell's directory and exports are the job's. */
const startCommand = (command: string): string =>
  `( mkdir -p ${FOLDER}; n=$(($(ls ${FOLDER} | wc -l) + 1)); [ "$n" -le ${MOST_JOBS} ] || { echo full; exit 1; }
d=${FOLDER}/$n; mkdir "$d" && mkfifo "$d/in" && : >"$d/out" && echo 0 >"$d/seen" && echo 137 >"$d/killed" || exit 1
setsid bash -c ${quoted(WRAPPER)} job "$d" ${quoted(command)} </dev/null >/dev/null 2>&1 &
until [ -s "$d/pid" ]; do sleep 0.01; done; echo "$n" )`;

/** Prints the exit code, or `running`; then what the job has printed since the last `read`. */
const readCommand = (job: number, wait: number): string =>
  `d=${FOLDER}/${job}; until [ -e "$d/code" ] || [ "$SECONDS" -ge ${wait} ]; do sleep 0.05; done
if [ -e "$d/code" ]; then cat "$d/code"; else echo running; fi
seen=$(cat "$d/seen"); size=$(stat -c %s "$d/out"); echo "$size" >"$d/seen"
left=$((size - seen)); [ "$left" -le ${READ_BYTES} ] || { echo "[$((left - ${READ_BYTES})) bytes are left out]"; seen=$((size - ${READ_BYTES})); }
tail -c "+$((seen + 1))" "$d/out" | head -c "$((size - seen))"`;

const KILL = { interrupt: 'INT', stop: 'KILL' } as const;

/** Fails if the job has ended. A job that filled the disk is stopped too: nothing is written for that. */
const killCommand = (job: number, signal: string): string =>
  `d=${FOLDER}/${job}; [ ! -e "$d/code" ] && kill -${signal} -- "-$(cat ` +
  `"$d/pid")"${signal === 'KILL' ? ' && mv "$d/killed" "$d/code"' : ''}`;

/** `timeout`'s exit code if the job does not read: its pipe is full. Ours if the job has ended. */
const [NOT_READ, ENDED] = [124, 3];

/** All of the input is written, or nothing. A pipe that is opened for reading too does not wait for its reader. */
const sendCommand = (job: number, input: string): string =>
  `d=${FOLDER}/${job}; [ ! -e "$d/code" ] || exit ${ENDED}
timeout 5 bash -c 'printf %s "$1" 1<>"$2"' send ${quoted(input)} "$d/in"`;

const missing = (name: string, remedy: string): ToolArgumentError =>
  new ToolArgumentError('jobs', name, `${name} is missing: ${remedy}.`);

async function run(sandbox: Sandbox, command: string, { callId, timeoutMs }: ToolContext, fresh: boolean) {
  return await sandbox.exec({ callId, command, timeoutMs, outputLimit: READ_BYTES + 4096, fresh });
}

async function start(args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string> {
  const command = args.optionalText('command');
  if (command === undefined || command.trim() === '') throw missing('command', 'give the command to start');
  const { output, exitCode } = await run(sandbox, startCommand(command), context, false);
  if (output.trim() === 'full') throw args.wrong('action', `cannot start another job: ${MOST_JOBS} is the most.`);
  if (exitCode !== 0) return `The job could not be started: ${truncateMiddle(output.trim(), 500)}`;
  return `Job ${output.trim()} runs. Use read to see its output.`;
}

/** The job that the call names. Errors: `ToolArgumentError` if there is none. */
async function jobOf(args: Arguments, sandbox: Sandbox): Promise<number> {
  const job = args.integer('job');
  if (job === undefined) throw missing('job', 'give the number of a job');
  if ((await sandbox.read(`${FOLDER}/${job}`, 0)).kind !== 'directory')
    throw args.wrong('job', 'there is no such job.');
  return job;
}

async function read(job: number, args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string> {
  const most = Math.max(0, Math.floor((context.timeoutMs - OWN_MS) / 1000));
  const wait = args.integer('wait') ?? WAIT;
  if (wait < 0) throw args.wrong('wait', 'must not be negative.');
  const { output, timedOut } = await run(sandbox, readCommand(job, Math.min(wait, most)), context, true);
  if (timedOut) return `[timed out after ${context.timeoutMs / 1000} s; everything was stopped]`;
  const end = output.indexOf('\n');
  const state = output.slice(0, end);
  const printed = normalizeOutput(output.slice(end + 1)).replace(/\n+$/u, '');
  const { maxCharacters = DEFAULT_MAX_CHARACTERS } = context;
  const line = state === 'running' ? `[job ${job} runs]` : `[job ${job} has ended with exit code ${state}]`;
  return [truncateMiddle(printed, maxCharacters), line].filter((part) => part !== '').join('\n');
}

async function send(job: number, args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string> {
  const input = args.optionalText('input');
  if (input === undefined) throw missing('input', 'give the text to send, with its line end');
  if (Buffer.byteLength(input) > INPUT_BYTES) throw args.wrong('input', `has at most ${INPUT_BYTES} bytes.`);
  if (input.includes('\0')) throw args.wrong('input', 'has a null character.');
  const { exitCode } = await run(sandbox, sendCommand(job, input), context, true);
  if (exitCode === 0) return `Sent to job ${job}.`;
  const reason = exitCode === ENDED ? 'has ended' : exitCode === NOT_READ ? 'does not read its input' : 'has no input';
  return `[job ${job} ${reason}: nothing was sent]`;
}

export const jobs = makeTool({
  name: 'jobs',
  description:
    'Runs commands beside the shell: servers, watchers, programs that ask questions. start returns the number of the ' +
    'job; read returns what it has printed since the last read, and whether it runs; send writes to its standard ' +
    'input; interrupt sends Ctrl-C; stop ends it.',
  parameters: {
    action: { type: 'string', enum: ['start', 'read', 'send', 'interrupt', 'stop'], description: 'What to do.' },
    command: { type: 'string', description: 'The command of start. It runs in the directory of the shell.' },
    job: { type: 'integer', description: 'The number of the job, for every other action.' },
    input: { type: 'string', description: 'The text of send. End it with a line feed where the program reads lines.' },
    wait: { type: 'integer', description: `Seconds that read waits for the end of the job. Default: ${WAIT}.` },
  },
  required: ['action'],
  async run(args, sandbox, context) {
    const action = args.text('action');
    if (action === 'start') return await start(args, sandbox, context);
    const job = await jobOf(args, sandbox);
    if (action === 'read') return await read(job, args, sandbox, context);
    if (action === 'send') return await send(job, args, sandbox, context);
    const signal = KILL[action === 'stop' ? 'stop' : 'interrupt'];
    const { exitCode } = await run(sandbox, killCommand(job, signal), context, true);
    if (exitCode !== 0) return `[job ${job} has ended already]`;
    return action === 'stop' ? `Job ${job} was stopped.` : `Job ${job} was interrupted. Use read to see what it did.`;
  },
});
