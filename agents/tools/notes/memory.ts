/**
 * The policy's notes. `think`: a thought that is not kept. `memory`: files of the rollout below `/memories`, which stay
 * when messages are summarised and when a sandbox is lost. They are what the rollout's recorded calls made of them: the
 * tool keeps nothing, and any worker reads the same.
 */

import type { ToolCall } from '../../../protocol/message.ts';
import { type Arguments, readArguments, ToolArgumentError, type ToolParameters } from '../schema/arguments.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';
import { truncateMiddle } from '../observation.ts';
import { MemoryError, MemoryFiles, type MemoryCommand } from './memory-files.ts';

const NAME = 'memory';
const COMMANDS = ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'];

const parameters: ToolParameters = {
  command: { type: 'string', enum: COMMANDS, description: 'What to do.' },
  path: { type: 'string', description: 'A file or a folder below /memories. For rename: its present path.' },
  file_text: { type: 'string', description: 'For create: the whole content. An existing file is replaced.' },
  old_str: { type: 'string', description: 'For str_replace: the text to replace, which must be in the file once.' },
  new_str: { type: 'string', description: 'For str_replace: the text in its place.' },
  insert_line: { type: 'integer', description: 'For insert: the line after which to insert; 0 is the beginning.' },
  insert_text: { type: 'string', description: 'For insert: the text.' },
  new_path: { type: 'string', description: 'For rename: the new path.' },
  view_range: {
    type: 'array',
    items: { type: 'integer' },
    description: 'For view of a file: its first and last line, from 1; -1 is the end.',
  },
};
const required = ['command', 'path'];

/** Errors: `ToolArgumentError` for a parameter that the command needs. */
function commandOf(args: Arguments): MemoryCommand {
  const path = args.text('path');
  switch (args.text('command')) {
    case 'create':
      return { command: 'create', path, text: args.text('file_text') };
    case 'str_replace':
      return { command: 'str_replace', path, old: args.text('old_str'), text: args.optionalText('new_str') ?? '' };
    case 'insert': {
      const line = args.integer('insert_line');
      if (line === undefined)
        throw new ToolArgumentError(NAME, 'insert_line', 'insert needs the parameter insert_line.');
      return { command: 'insert', path, line, text: args.text('insert_text') };
    }
    case 'delete':
      return { command: 'delete', path };
    case 'rename':
      return { command: 'rename', path, to: args.text('new_path') };
    default:
      return { command: 'view', path, range: args.integers('view_range') };
  }
}

/** Calls that failed changed nothing, and fail again. */
function filesAfter(calls: readonly ToolCall[]): MemoryFiles {
  const files = new MemoryFiles();
  for (const call of calls) {
    try {
      files.apply(commandOf(readArguments(NAME, parameters, required, call.arguments)));
    } catch (error) {
      if (!(error instanceof MemoryError || error instanceof ToolArgumentError)) throw error;
    }
  }
  return files;
}

export const memory = makeTool({
  name: NAME,
  description:
    'Notes in files below /memories, which stay when earlier messages are forgotten: view, create, ' +
    'str_replace, insert, delete, rename.',
  parameters,
  required,
  runs: 'worker',
  effect: 'none',
  inOrder: true,
  async run(args, { earlierCalls, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const command = commandOf(args);
    try {
      return truncateMiddle(filesAfter(await earlierCalls()).apply(command), maxCharacters);
    } catch (error) {
      if (error instanceof MemoryError) throw new ToolArgumentError(NAME, 'path', error.message);
      throw error;
    }
  },
});

/** A thought that the policy writes down. It changes nothing, and every thought gets the same answer. */
export const think = makeTool({
  name: 'think',
  description: 'Writes down a thought. Nothing happens and nothing is found out: use it to plan or to reason.',
  parameters: { thought: { type: 'string', description: 'The thought.' } },
  required: ['thought'],
  runs: 'worker',
  effect: 'none',
  async run() {
    return await Promise.resolve('Your thought has been noted.');
  },
});
