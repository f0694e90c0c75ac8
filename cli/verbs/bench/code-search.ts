/** `longhaul bench code-search`: the tool `code_search` against `search`. */

import { benchCodeSearch } from '../../../benchmarks/code-search.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface CodeSearchOptions {
  readonly files: string;
  readonly questions: string;
}

async function codeSearch(options: CodeSearchOptions, context: VerbContext): Promise<Outcome> {
  const document = await benchCodeSearch({
    files: wholeNumber('--files', options.files, 2),
    questions: wholeNumber('--questions', options.questions, 1),
  });
  const { files, megabytes, indexSeconds, queryMs, changedMs, grep, bytesRead } = document;
  context.say(`${files} files, ${megabytes.toFixed(1)} MB: index in ${indexSeconds.toFixed(1)} s`);
  context.say(
    `  a question: ${queryMs.toFixed(0)} ms, after a change ${changedMs.toFixed(0)} ms; ` +
      `grep ${grep.queryMs.toFixed(0)} ms`,
  );
  context.say(`  the model reads ${bytesRead.codeSearch} bytes; with grep ${bytesRead.grep}`);
  return { document };
}

export const codeSearchBench: Verb = {
  define(command, run) {
    command
      .command('code-search')
      .description('code_search against search (grep): time of the index and of a question, bytes that the model reads')
      .option('--files <n>', 'files of the generated repository', '2000')
      .option('--questions <n>', 'questions', '20')
      .action((options: CodeSearchOptions) => run((context) => codeSearch(options, context)));
  },
};
