/** `longhaul logs`: what the processes of the stack wrote, for people; with `--json` each line as its process wrote it. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { stackHome, stackPaths } from '../../../connection/stack-paths.ts';
import { UserInputError } from '../../../client/errors.ts';
import { SERVER } from '../../../stack/embedded-server.ts';
import { lastLines } from '../../../stack/processes/log-files.ts';
import { type LogRecord, readableLine, readLogLine } from '../../../workers/logs/readable-log.ts';
import { followFile } from '../../follow-file.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

/** Of each log's end, and as much of what was moved off its front last. */
const MOST_BYTES = 4 * 1024 * 1024;

interface Options {
  readonly lines: string;
  readonly run?: string;
  readonly follow?: boolean;
}

interface Line {
  readonly process: string;
  readonly text: string;
  /** Absent of what native libraries, Node itself or Temporal's server wrote. */
  readonly record?: LogRecord;
}

function lineOf(process: string, text: string): Line {
  const record = readLogLine(text);
  return { process, text, ...(record === undefined ? {} : { record }) };
}

/** The processes to read. All are those whose lines have times to be put in order by: not Temporal's server. */
function chosen(name: string | undefined, folder: string): string[] {
  const ending = '.log';
  const known = readdirIfThere(folder).flatMap((file) =>
    file.endsWith(ending) ? [file.slice(0, -ending.length)] : [],
  );
  if (known.length === 0)
    throw new UserInputError('LONGHAUL_HOME', folder, 'no stack has written logs there: npx longhaul up --detach');
  if (name === undefined) return known.filter((one) => one !== SERVER);
  if (!known.includes(name)) throw new UserInputError('process', name, `give one of ${known.join(', ')}`);
  return [name];
}

function readdirIfThere(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** In the order of time; a line without one comes after the line before it. */
function inOrder(logs: ReadonlyArray<readonly Line[]>): Line[] {
  const timed = logs.flatMap((lines) => {
    let time = '';
    return lines.map((line) => ({ line, time: (time = line.record?.time ?? time) }));
  });
  return timed.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0)).map(({ line }) => line);
}

/** Of several processes, whose the line is that does not say so itself. */
function shown({ process, text, record }: Line, ofSeveral: boolean): string {
  return record === undefined && ofSeveral ? `${process}: ${text}` : readableLine(text);
}

async function readLogs(name: string | undefined, options: Options, context: VerbContext): Promise<Outcome> {
  const most = wholeNumber('--lines', options.lines, 0);
  if (options.follow === true && context.json)
    throw new UserInputError('--follow', 'with --json', 'give one of them: --json prints one document, which ends');
  const { logs: folder } = stackPaths(stackHome(context.env, context.cwd));
  const processes = chosen(name, folder);
  const isWanted = ({ text, record }: Line): boolean =>
    text !== '' && (options.run === undefined || record?.runId === options.run);
  const say = (line: Line): void => context.say(shown(line, processes.length > 1));
  const pathOf = (process: string): string => join(folder, `${process}.log`);

  const logs = processes.map((process) =>
    [`${pathOf(process)}.1`, pathOf(process)]
      .flatMap((path) => lastLines(path, MOST_BYTES))
      .map((text) => lineOf(process, text))
      .filter(isWanted),
  );
  const lines = most === 0 ? [] : inOrder(logs).slice(-most);
  lines.forEach(say);
  if (options.follow === true)
    await Promise.all(
      processes.map((process) =>
        followFile(pathOf(process), (text) => [lineOf(process, text)].filter(isWanted).forEach(say), context.signal),
      ),
    );
  return { document: { folder, lines: lines.map(({ process, text, record }) => ({ process, line: record ?? text })) } };
}

export const logs: Verb = {
  define(command, run) {
    command
      .argument('[process]', 'by its name in ps, or supervisor (default: all but the server, in the order of time)')
      .option('-n, --lines <n>', 'how many of the last lines', '100')
      .option('--run <run>', 'only lines about this run; of an eval: eval/ID')
      .option('-f, --follow', 'and what is written from now on, until Ctrl-C')
      .action((name: string | undefined, options: Options) => run((context) => readLogs(name, options, context)));
  },
};
