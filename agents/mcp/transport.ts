/**
 * Lines to and from a program that keeps running in a sandbox. Every exchange is a journalled call of the sandbox, so a
 * repeated one returns the same lines and sends nothing again. The program belongs to the sandbox, not to a worker: it
 * reads from a FIFO that stays open and writes to a file.
 */

import type { ExecResult, Sandbox } from '../../sandboxes/sandbox.ts';
import type { McpSandboxServer } from './server.ts';

const FOLDER = '/tmp/.longhaul-mcp';
/** Bytes of lines in one exchange. */
const OUTPUT_BYTES = 4 << 20;
const ERROR_CHARACTERS = 500;
const NOT_RUNNING = 90;
const ENDED = 91;

/** What a program had to say, or how it ended. */
export type Exchanged =
  | { readonly kind: 'lines'; readonly lines: readonly string[] }
  /** It was not running, so nothing was sent to it; or it ended before it wrote a further line. */
  | { readonly kind: 'not-running' | 'ended'; readonly how: string }
  | { readonly kind: 'timed-out' }
  | { readonly kind: 'too-long' };

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A pid with its start time names one process: the kernel reuses pids. */
const SHARED = `began() { local stat; { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- \${stat##*) }; [ "$1" != Z ] && echo "\${20}"; }
alive() { local pid start; { read -r pid start <"$d/pid"; } 2>/dev/null && [ -n "$start" ] && [ "$(began "$pid")" = "$start" ]; }
how() { if [ -s "$d/code" ]; then echo "with code $(cat "$d/code")"; else echo 'by a signal or with everything else that ran'; fi
  tail -c ${ERROR_CHARACTERS} "$d/err" 2>/dev/null; }`;

/**
 * The job has a process group of its own (set -m): what a call leaves in the call's own group ends with it. The program
 * holds the FIFO open for both directions, so its input has no end.
 */
const launchScript = (
  folder: string,
  { command, env = {}, cwd = '.' }: McpSandboxServer,
): string => `d=${quoted(folder)}
${SHARED}
rm -rf "$d" && mkdir -p "$d" && mkfifo "$d/in" && : >"$d/out" && : >"$d/err" && : >"$d/new" || exit 1
set -m
bash -c 'd=$1; cd "$2" && { shift 2; env "$@"; }; echo $? >"$d/code"' mcp "$d" ${quoted(cwd)} ${Object.entries(env)
  .map(([name, value]) => quoted(`${name}=${value}`))
  .join(' ')} ${command.map(quoted).join(' ')} <>"$d/in" >>"$d/out" 2>>"$d/err" &
echo "$! $(began $!)" >"$d/pid"`;

/**
 * Waits for complete lines after the first `seen` of this exchange's message. The message is sent whole before any line
 * counts: what still writes it would end with this call. What a program wrote before its first message counts, too.
 */
const exchangeScript = (folder: string, seen: number): string => `d=${quoted(folder)}
${SHARED}
if [ ${seen} = 0 ]; then
  alive || { how; exit ${NOT_RUNNING}; }
  if [ -e "$d/new" ]; then rm "$d/new"; else : >"$d/out"; fi
  [ "$(wc -c <"$d/err")" -le 65536 ] || : >"$d/err"
fi
if [ -s "$d/message" ]; then
  rm -f "$d/sent"
  { cat "$d/message" >"$d/in" && : >"$d/sent"; } &
else : >"$d/sent"
fi
pause=0.01
while :; do
  alive && running=yes || running=no
  n=$(wc -l <"$d/out")
  if [ "$n" -gt ${seen} ] && { [ -e "$d/sent" ] || [ $running = no ]; }; then break; fi
  if [ $running = no ]; then sleep 0.05; how; exit ${ENDED}; fi
  sleep $pause
  case $pause in 0.01) pause=0.02;; 0.02) pause=0.05;; *) pause=0.1;; esac
done
tail -n +$((${seen} + 1)) "$d/out" | head -n $((n - ${seen}))`;

export class Transport {
  readonly #sandbox: Sandbox;
  readonly #folder: string;
  /** Prefix of the journal's keys of this conversation. */
  readonly #id: string;
  readonly #server: McpSandboxServer;
  #leftMs: number;
  #calls = 0;

  /** `timeoutMs`: for the whole conversation. */
  constructor(sandbox: Sandbox, name: string, server: McpSandboxServer, id: string, timeoutMs: number) {
    this.#sandbox = sandbox;
    this.#folder = `${FOLDER}/${name}`;
    this.#id = id;
    this.#server = server;
    this.#leftMs = timeoutMs;
  }

  /** Starts the program, in place of one that may still run. */
  async launch(): Promise<ExecResult> {
    return await this.#exec(launchScript(this.#folder, this.#server));
  }

  /**
   * Sends messages, one a line, and waits for a line. `seen`: lines that this conversation has received since its first
   * message; 0 begins one. Errors: those of the sandbox.
   */
  async exchange(messages: readonly string[], seen: number): Promise<Exchanged> {
    const content = Buffer.from(messages.map((message) => `${message}\n`).join(''));
    await this.#sandbox.write({ callId: this.#key('message'), path: `${this.#folder}/message`, content, note: '' });
    const { exitCode, output, timedOut, droppedBytes } = await this.#exec(exchangeScript(this.#folder, seen));
    if (timedOut) return { kind: 'timed-out' };
    if (droppedBytes > 0) return { kind: 'too-long' };
    const how = output.trim().replace('\n', ': ');
    if (exitCode === NOT_RUNNING) return { kind: 'not-running', how };
    if (exitCode === 0) return { kind: 'lines', lines: output.split('\n').slice(0, -1) };
    return { kind: 'ended', how };
  }

  #key(what: string): string {
    this.#calls += 1;
    return `${this.#id}#${what}-${this.#calls}`;
  }

  async #exec(command: string): Promise<ExecResult> {
    const call = { callId: this.#key('mcp'), command, outputLimit: OUTPUT_BYTES, fresh: true };
    const result = await this.#sandbox.exec({ ...call, timeoutMs: Math.max(1, this.#leftMs) });
    this.#leftMs -= result.durationMs;
    return result;
  }
}
