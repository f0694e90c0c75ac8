/**
 * `search`: returns the lines of files that contain a text, as `path:line:text`, sorted by path and line. It runs in a
 * new shell, so it neither sees nor changes the state of the long-lived one, and it writes nothing into the workspace.
 */

import type { ExecResult } from '../../sandboxes/sandbox.ts';
import { ToolArgumentError } from './schema/arguments.ts';
import { normalizeOutput, truncateMiddle } from './observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from './tool.ts';

const NAME = 'search';
const OUTPUT_BYTES = 1 << 20;
const MAX_MATCHES = 50;
const MAX_LINE = 300;
const SKIPPED = ['.git', '.hg', '.svn', 'node_modules', '__pycache__', '.venv'];

interface Match {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

export const quoteForShell = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export interface SearchQuery {
  readonly query: string;
  readonly path: string | undefined;
  readonly include: string | undefined;
  readonly regex: boolean;
}

export function searchCommand({ query, path, include, regex }: SearchQuery): string {
  const options = [
    '-r',
    '-n',
    '-H',
    '-I',
    '-Z',
    regex ? '-E' : '-F',
    ...SKIPPED.map((name) => `--exclude-dir=${name}`),
  ];
  if (include !== undefined) options.push(quoteForShell(`--include=${include}`));
  // Without a path, grep prints file names without `./` before them.
  const where = path === undefined || path === '.' || path === './' ? [] : [quoteForShell(path)];
  return ['grep', ...options, '-e', quoteForShell(query), '--', ...where].join(' ');
}

const byPathAndLine = (a: Match, b: Match): number => (a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1);

/** Parses grep's output, in which a NUL ends each file name. */
export function parseMatches(output: string): Match[] {
  return output
    .split('\n')
    .flatMap((entry) => {
      const [, path, line, text] = /^([^\0]+)\0(\d+):(.*)$/su.exec(entry) ?? [];
      return path === undefined || text === undefined
        ? []
        : [{ path: path.replace(/^\.\//u, ''), line: Number(line), text }];
    })
    .toSorted(byPathAndLine);
}

/** Errors: `ToolArgumentError` if the search timed out or failed. */
function observation(result: ExecResult, query: string, maxCharacters: number): string {
  if (result.timedOut) throw new ToolArgumentError(NAME, 'path', 'the search took too long; search a smaller path.');
  if (result.exitCode === 1) return `No matches for ${JSON.stringify(query)}.`;
  const matches = parseMatches(result.output);
  if (matches.length === 0)
    throw new ToolArgumentError(
      NAME,
      'query',
      truncateMiddle(normalizeOutput(result.output).replaceAll('grep: ', '').trim(), maxCharacters),
    );
  const lines = matches
    .slice(0, MAX_MATCHES)
    .map(
      ({ path, line, text }) =>
        `${path}:${line}:${truncateMiddle(normalizeOutput(text), MAX_LINE).replaceAll('\n', ' ')}`,
    );
  const left = matches.length - lines.length;
  if (left > 0 || result.droppedBytes > 0)
    lines.push(`[${left > 0 ? `${left} more matches` : 'more matches'}; narrow the search]`);
  return truncateMiddle(lines.join('\n'), maxCharacters);
}

export const search = makeTool({
  name: NAME,
  description: 'Finds the lines of files that contain a text, and prints them as path:line:text.',
  parameters: {
    query: {
      type: 'string',
      description: 'The exact text, or an extended regular expression if `regex` is true; one line.',
    },
    path: { type: 'string', description: 'File or directory to search. Default: the workspace.' },
    include: { type: 'string', description: 'Only files whose names match this pattern, like *.py.' },
    regex: { type: 'boolean', description: 'Whether the query is a regular expression. Default: false.' },
  },
  required: ['query'],
  onlyReads: () => true,
  async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const query = args.text('query');
    if (query === '') throw args.wrong('query', 'must not be empty.');
    if (/[\n\0]/u.test(query)) throw args.wrong('query', 'must be a single line.');
    const regex = args.flag('regex');
    const command = searchCommand({
      query,
      regex,
      path: args.optionalText('path'),
      include: args.optionalText('include'),
    });
    const result = await sandbox.exec({ callId, command, timeoutMs, outputLimit: OUTPUT_BYTES, fresh: true });
    return observation(result, query, maxCharacters);
  },
});
