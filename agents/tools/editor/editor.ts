/**
 * `str_replace_editor`: views and edits files. An edit is journalled with its answer under the call's id, so a repeated
 * call returns the same answer and never edits twice.
 */

import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { type Arguments, ToolArgumentError } from '../schema/arguments.ts';
import { insertLine, MOST_OCCURRENCES, occurrences, replaceOnce } from './edits.ts';
import { makeTool, type ToolContext } from '../tool.ts';
import { takeLastVersion, keepVersion } from './undo-history.ts';
import { readText, view } from './view.ts';

const NAME = 'str_replace_editor';

/** Returns `note`. Errors: `ToolArgumentError` if the file could not be written. */
function saved(path: string, note: string, error: string | undefined): string {
  if (error !== undefined) throw new ToolArgumentError(NAME, 'path', `${path} was not written: ${error}.`);
  return note;
}

async function save(
  sandbox: Sandbox,
  callId: string,
  path: string,
  content: Uint8Array,
  note: string,
): Promise<string> {
  const { note: written, error } = await sandbox.write({ callId, path, content, note });
  return saved(path, written, error);
}

async function edit(
  sandbox: Sandbox,
  callId: string,
  path: string,
  before: Buffer,
  after: Uint8Array,
): Promise<string> {
  await keepVersion(sandbox, callId, path, before);
  return await save(sandbox, callId, path, after, `Edited ${path}.`);
}

async function create(args: Arguments, sandbox: Sandbox, callId: string): Promise<string> {
  const path = args.text('path');
  const content = args.text('file_text');
  const existing = await sandbox.read(path, 0);
  if (existing.kind !== 'missing')
    throw new ToolArgumentError(NAME, 'path', `${path} exists already; use str_replace to change it.`);
  return await save(sandbox, callId, path, Buffer.from(content), `Created ${path}.`);
}

async function strReplace(args: Arguments, sandbox: Sandbox, callId: string): Promise<string> {
  const path = args.text('path');
  const old = Buffer.from(args.text('old_str'));
  const replacement = Buffer.from(args.optionalText('new_str') ?? '');
  if (old.length === 0) throw args.wrong('old_str', 'must not be empty; use insert to add text.');
  if (old.equals(replacement)) throw args.wrong('new_str', 'must differ from old_str.');
  const before = await readText(sandbox, path);
  const lines = occurrences(before, old);
  if (lines.length === 0)
    throw new ToolArgumentError(NAME, 'old_str', `old_str is not in ${path}; copy it exactly, with its indentation.`);
  const times = lines.length > MOST_OCCURRENCES ? `more than ${MOST_OCCURRENCES}` : lines.length;
  if (lines.length > 1)
    throw new ToolArgumentError(
      NAME,
      'old_str',
      `old_str is in ${path} ${times} times (lines ${lines.slice(0, MOST_OCCURRENCES).join(', ')}); make it longer.`,
    );
  return await edit(sandbox, callId, path, before, replaceOnce(before, old, replacement));
}

async function insert(args: Arguments, sandbox: Sandbox, callId: string): Promise<string> {
  const path = args.text('path');
  const text = args.text('new_str');
  const line = args.integer('insert_line');
  if (line === undefined)
    throw new ToolArgumentError(
      NAME,
      'insert_line',
      'insert needs insert_line, the line to insert after (0: the start).',
    );
  const before = await readText(sandbox, path);
  const after = insertLine(before, line, text);
  if (typeof after === 'number') throw args.wrong('insert_line', `must be between 0 and ${after}.`);
  return await edit(sandbox, callId, path, before, after);
}

async function undo(args: Arguments, sandbox: Sandbox, callId: string): Promise<string> {
  const path = args.text('path');
  const note = `Undid the last edit of ${path}.`;
  const last = await takeLastVersion(sandbox, callId, path, (content) => save(sandbox, callId, path, content, note));
  if (last === undefined) throw new ToolArgumentError(NAME, 'path', `there is no edit of ${path} to undo.`);
  return last;
}

async function run(args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string> {
  const { callId } = context;
  const command = args.text('command');
  if (command === 'view') return await view(args, sandbox, context);
  if (command === 'undo_edit') return await undo(args, sandbox, callId);
  const known = await sandbox.written(callId);
  if (known !== undefined) return saved(args.text('path'), known.note, known.error);
  if (command === 'create') return await create(args, sandbox, callId);
  if (command === 'insert') return await insert(args, sandbox, callId);
  return await strReplace(args, sandbox, callId);
}

export const editor = makeTool({
  name: NAME,
  description: 'Views, creates and edits files. Paths are relative to the workspace or absolute.',
  parameters: {
    command: {
      type: 'string',
      description: 'What to do.',
      enum: ['view', 'create', 'str_replace', 'insert', 'undo_edit'],
    },
    path: { type: 'string', description: 'File, or directory to view.' },
    file_text: { type: 'string', description: 'create: the content of the new file.' },
    old_str: { type: 'string', description: 'str_replace: the exact text to replace; it must be in the file once.' },
    new_str: { type: 'string', description: 'str_replace: the new text. insert: the lines to insert.' },
    insert_line: { type: 'integer', description: 'insert: the line to insert after; 0 is the start of the file.' },
    view_range: {
      type: 'array',
      description: 'view: first and last line, like [1, 20]; -1 is the end of the file.',
      items: { type: 'integer' },
    },
  },
  required: ['command', 'path'],
  onlyReads: ({ command }) => command === 'view',
  run,
});
