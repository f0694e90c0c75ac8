/**
 * `code_search`: where code is defined and used, by syntax trees; and the passages that match a description. The index
 * is kept in the worker: nothing is written into the workspace.
 */

import { definitions, outline, plainPath, references, search } from '../code-search/answers.ts';
import { indexOf } from '../code-search/code-index.ts';
import { Unlisted } from '../code-search/source-files.ts';
import { ToolArgumentError } from './schema/arguments.ts';
import { normalizeOutput, truncateMiddle } from './observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from './tool.ts';

const NAME = 'code_search';
const LONGEST_QUERY = 1000;

export const codeSearch = makeTool({
  name: NAME,
  description:
    'Searches code in Python, TypeScript, JavaScript, Go, Rust, Java and C. definitions: where a name is defined. ' +
    'references: where it is used. outline: what a file defines. search: the parts of the code that match a ' +
    'description.',
  parameters: {
    action: {
      type: 'string',
      enum: ['definitions', 'references', 'outline', 'search'],
      description: 'What to look for.',
    },
    query: {
      type: 'string',
      description: 'A name such as parse or Parser.parse; for search, words. outline needs none.',
    },
    path: { type: 'string', description: 'File or folder to look in; the file of outline. Default: the workspace.' },
  },
  required: ['action'],
  onlyReads: () => true,
  async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const action = args.text('action');
    const query = args.optionalText('query')?.trim() ?? '';
    const path = plainPath(args.optionalText('path'));
    if (action !== 'outline' && query === '')
      throw new ToolArgumentError(NAME, 'query', `query is missing: give ${action === 'search' ? 'words' : 'a name'}.`);
    if (query.length > LONGEST_QUERY) throw args.wrong('query', `has at most ${LONGEST_QUERY} characters.`);
    const index = indexOf(sandbox.id);
    try {
      await index.update(sandbox, callId, timeoutMs);
    } catch (error) {
      if (error instanceof Unlisted)
        throw new ToolArgumentError(NAME, 'path', `the workspace has no index: ${error.message}.`);
      throw error;
    }
    const answers = { definitions, references, search };
    const answer =
      action === 'definitions' || action === 'references' || action === 'search'
        ? answers[action](index, query, path)
        : outline(index, path);
    const left = index.left > 0 ? `\n[${index.left} source files are not in the index]` : '';
    return `${truncateMiddle(normalizeOutput(answer), maxCharacters)}${left}`;
  },
});
