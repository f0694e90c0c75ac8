/** `bash`: runs a command in the sandbox's long-lived shell. The answer is always its output. */

import type { ExecResult } from '../../../sandboxes/sandbox.ts';
import { normalizeOutput, truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';

const OUTPUT_BYTES = 256 << 10;

/** Removes line numbers: the shell counts lines over all of its calls, so the number means nothing for this command. */
const withoutLineNumbers = (output: string): string =>
  output.replaceAll(
    /^(bash|main): (?:eval: )?line \d+: /gmu,
    (_, name: string) => `${name === 'main' ? 'bash' : name}: `,
  );

function ending(result: ExecResult, timeoutMs: number): string[] {
  const lines: string[] = [];
  if (result.outOfMemory) lines.push('[out of memory: a process was killed]');
  if (result.timedOut) lines.push(`[timed out after ${timeoutMs / 1000} s; everything was stopped]`);
  else if (result.signal !== null) lines.push(`[killed by ${result.signal}]`);
  else if (result.exitCode !== 0) lines.push(`[exit code ${result.exitCode}]`);
  return lines;
}

export function bashObservation(result: ExecResult, timeoutMs: number, maxCharacters: number): string {
  const printed = withoutLineNumbers(normalizeOutput(result.output)).replace(/(?<!\n)\n+$/u, '');
  const parts = [truncateMiddle(printed, maxCharacters), ...ending(result, timeoutMs)].filter((part) => part !== '');
  return parts.length === 0 ? '[no output]' : parts.join('\n');
}

export const bash = makeTool({
  name: 'bash',
  description:
    'Runs a command in a bash shell. Working directory and variables stay from call to call. ' +
    'Standard input is empty, ' +
    'and there is no network.',
  parameters: {
    command: { type: 'string', description: 'The command to run.' },
    timeout: { type: 'integer', description: 'Seconds after which everything that runs is stopped.' },
  },
  required: ['command'],
  async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const seconds = args.integer('timeout');
    if (seconds !== undefined && seconds < 1) throw args.wrong('timeout', 'must be at least 1.');
    const limit = seconds === undefined ? timeoutMs : Math.min(seconds * 1000, timeoutMs);
    const command = args.text('command');
    const result = await sandbox.exec({ callId, command, timeoutMs: limit, outputLimit: OUTPUT_BYTES });
    return bashObservation(result, limit, maxCharacters);
  },
});
