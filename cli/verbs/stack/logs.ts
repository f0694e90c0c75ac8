/** `longhaul logs`: the logs of the stack, readable for people; with `--json` each line as its process wrote it. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { stackHome, stackPaths } from '../../../connection/stack-paths.ts';
import { UserInputError } from '../../../client/errors.ts';
import { SERVER } from '../../../stack/embedded-server.ts';
import { lastLines } from '../../../stack/processes/log-files.ts';
import { type LogRecord, readableLine, readLogLine } from '../../../workers/logs/readable-log.ts';
import { followFile } from '../../follow-file.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

/** The files of one log, the oldest first: with `--run`, lines may be far back. */
const FILES = { all: ['.1', ''], ofRun: ['.3', '.2', '.1', ''] };
/** Bytes read from the end of each file. */
const MOST_BYTES = { all: 4 * 1024 * 1024, ofRun: 32 * 1024 * 1024 };

interface Options {
  readonly lines: string;
  readonly run?: string;
  readonly follow?: boolean;
}

interface Line {
  readonly process: string;
  readonly text: string;
  /** Absent for lines of native libraries, of Node itself and of Temporal's server. */
  readonly record?: LogRecord;
}

function lineOf(process: string, text: string): Line {
  const record = readLogLine(text);
  return { process, text, ...(record === undefined ? {} : { record }) };
}

/** The processes to read. The default excludes Temporal's server, whose lines have no times to sort by. */
function chosen(name: string | undefined, folder: string): string[] {
  const ending = '.log';
  const known = readdirIfThere(folder).flatMap((file) =>
    file.endsWith(ending) ? [file.slice(0, -ending.length)] : [],
  );
  if (known.length === 0)
    throw new UserInputError(
      'LONGHAUL_HOME',
      folder,
      'no stack has written logs there; start one: npx longhaul up --detach',
    );
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

/** Sorts lines by time; a line without a time stays behind the line before it. */
function inOrder(logs: ReadonlyArray<readonly Line[]>): Line[] {
  const timed = logs.flatMap((lines) => {
    let time = '';
    return lines.map((line) => ({ line, time: (time = line.record?.time ?? time) }));
  });
  return timed.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0)).map(({ line }) => line);
}

/** With several processes, a line without a record gets the name of its process. */
function shown({ process, text, record }: Line, ofSeveral: boolean): string {
  return record === undefined && ofSeveral ? `${process}: ${text}` : readableLine(text);
}

async function readLogs(name: string | undefined, options: Options, context: VerbContext): Promise<Outcome> {
  const most = wholeNumber('--lines', options.lines, 0);
  if (options.follow === true && context.json)
    throw new UserInputError('--follow', 'with --json', 'give only one of them: --json prints one document and ends');
  const { logs: folder } = stackPaths(stackHome(context.env, context.cwd));
  const processes = chosen(name, folder);
  const isWanted = ({ text, record }: Line): boolean =>
    text !== '' && (options.run === undefined || record?.runId === options.run);
  const say = (line: Line): void => context.say(shown(line, processes.length > 1));
  const reach = options.run === undefined ? 'all' : 'ofRun';
  const pathOf = (process: string): string => join(folder, `${process}.log`);

  const logs = processes.map((process) =>
    FILES[reach]
      .flatMap((file) => lastLines(`${pathOf(process)}${file}`, MOST_BYTES[reach]))
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
      .argument('[process]', 'a name that ps shows, or supervisor (default: all except the server, sorted by time)')
      .option('-n, --lines <n>', 'number of last lines', '100')
      .option('--run <run>', 'only lines about this run, or this eval (eval/ID)')
      .option('-f, --follow', 'also print new lines, until Ctrl-C')
      .action((name: string | undefined, options: Options) => run((context) => readLogs(name, options, context)));
  },
};
