/**
 * `searchcode`: problems with a number as the answer, by SkyRL-Gym's protocol. `<tool><search>…</search></tool>` and
 * `<tool><python>…</python></tool>` are answered, `<solution>` ends, and the first `#### NUMBER` of the whole
 * conversation is compared with the golden one. Python runs in the task's sandbox alone.
 */

import { z } from 'zod';
import type { Within } from '../../agents/retrieval/retrieval-server.ts';
import { skyrlAnswer } from '../math/gsm8k-answer.ts';
import { stripped } from '../../protocol/python-text.ts';
import type { Environment, Task, TaskContext } from '../environment.ts';
import { searchResult } from './information.ts';
import {
  type AskedRecord,
  openSearchTasks,
  promptOf,
  searchRecord,
  type SearchTaskSettings,
  searchTaskOptions,
} from './question-records.ts';
import { saidAfter } from './search.ts';

const INSTRUCTION =
  'Solve the problem below. You have two tools: <tool><search>QUERY</search></tool> finds passages, ' +
  'and <tool><python>CODE</python></tool> runs Python, of which you see what it prints. Use one in a message, ' +
  'and end the message there. When you know the answer, write it as <solution>#### NUMBER</solution>.';

const options = searchTaskOptions(INSTRUCTION);

const PYTHON_SECONDS = 10;
const MOST_CODE = 100_000;
const MOST_OUTPUT = 16_384;
const TOOLS = ['search', 'python'];

/** A call in a message, or why there is none. */
export type ToolUse =
  | { readonly tool: 'search' | 'python'; readonly input: string }
  | { readonly wrong: 'no_tool_block' | 'no_inner_tag' | 'unknown_tool'; readonly message: string };

/** The text between the first `<tool>` that is closed and its end. */
function toolBlock(message: string): string | undefined {
  const from = message.indexOf('<tool>');
  const end = from < 0 ? -1 : message.indexOf('</tool>', from + 6);
  return end < 0 ? undefined : message.slice(from + 6, end);
}

/** The first tag that is closed, with its content. Takes time linear in the text. */
function innerTag(block: string): { readonly name: string; readonly input: string } | undefined {
  const closed = new Map<string, number>();
  for (const { 1: name = '', index } of block.matchAll(/<\/([\p{L}\p{N}_]+)>/gu)) closed.set(name, index);
  for (const { 0: tag, 1: name = '', index } of block.matchAll(/<([\p{L}\p{N}_]+)>/gu)) {
    const from = index + tag.length;
    if ((closed.get(name) ?? -1) < from) continue;
    return { name, input: stripped(block.slice(from, block.indexOf(`</${name}>`, from))) };
  }
  return undefined;
}

export function toolUseIn(message: string): ToolUse {
  const block = toolBlock(message);
  if (block === undefined)
    return {
      wrong: 'no_tool_block',
      message: 'No tool call found: write <tool><search>…</search></tool> or <tool><python>…</python></tool>.',
    };
  const inner = innerTag(stripped(block));
  if (inner === undefined)
    return {
      wrong: 'no_inner_tag',
      message: 'No tool inside <tool>: write <search>…</search> or <python>…</python> there.',
    };
  const tool = TOOLS.find((name) => name === inner.name) as 'search' | 'python' | undefined;
  if (tool === undefined)
    return {
      wrong: 'unknown_tool',
      message: `There is no tool ${inner.name.slice(0, 50)}; use ${TOOLS.join(' or ')}.`,
    };
  return { tool, input: inner.input };
}

/** As `python -c` with the code: tracebacks name no file. */
const PROGRAM = `'exec(compile(open("/tmp/searchcode.py", encoding="utf-8").read(), "<string>", "exec"))'`;

/** What the program printed; if it wrote to its error output, that alone. As SkyRL-Gym's tool. */
async function runPython(code: string, ctx: TaskContext): Promise<string> {
  const failed = (why: string) => `Error executing Python code: ${why}`;
  if (code.length > MOST_CODE) return failed(`the code has more than ${MOST_CODE} characters`);
  const sandbox = await ctx.sandbox();
  const id = `${ctx.id}/python`;
  await sandbox.write({ callId: `${id}/code`, path: '/tmp/searchcode.py', content: Buffer.from(code), note: '' });
  const ran = await sandbox.exec({
    callId: id,
    command: `cd /work; rm -f /tmp/searchcode.*.all
python3 -c ${PROGRAM} </dev/null >/tmp/searchcode.out.all 2>/tmp/searchcode.err.all
for name in out err; do head -c ${MOST_OUTPUT} /tmp/searchcode.$name.all >/tmp/searchcode.$name; done`,
    timeoutMs: PYTHON_SECONDS * 1000,
    outputLimit: 1024,
    fresh: true,
  });
  if (ran.timedOut) return failed(`Execution timed out after ${PYTHON_SECONDS} seconds.`);
  const read = async (name: string): Promise<string> => {
    const found = await sandbox.read(`/tmp/searchcode.${name}`, MOST_OUTPUT);
    return found.kind === 'file' ? stripped(Buffer.from(found.content).toString('utf8')) : `[no output: ${found.kind}]`;
  };
  const err = await read('err');
  return err === '' ? await read('out') : failed(err);
}

const stateSchema = z.object({ turns: z.int() });

/** `wait`: between tries at the retrieval server; absent: real time. */
export function searchcodeTask(record: AskedRecord, settings: SearchTaskSettings, wait?: Within['wait']): Task {
  const messages = promptOf(record, settings.instruction);
  return {
    messages,
    tools: [],
    sandboxes: { main: { workdir: '/work', files: [], env: {} } },
    gradedIn: 'none',
    start: async () => await Promise.resolve({ state: { turns: 0 } }),

    async step(ctx, state, message) {
      const turns = stateSchema.parse(state).turns + 1;
      const isSolved = message.includes('<solution>') && message.includes('</solution>');
      if (turns >= settings.maxTurns || isSolved) return { state: { turns }, messages: [], done: true };
      const use = toolUseIn(message);
      const within = { signal: ctx.signal, deadline: ctx.deadline, ...(wait && { wait }) };
      const content =
        'wrong' in use
          ? use.message
          : use.tool === 'search'
            ? await searchResult(settings, use.input, within)
            : await runPython(use.input, ctx);
      const metrics = {
        searches: Number('tool' in use && use.tool === 'search'),
        programs: Number('tool' in use && use.tool === 'python'),
      };
      // What prints nothing is answered with nothing.
      return { state: { turns }, messages: content === '' ? [] : [{ role: 'user', content }], metrics };
    },

    async grade(_ctx, work) {
      const answer = skyrlAnswer(saidAfter(work, messages.length).join('\n'), 'strict');
      const passed = answer !== null && record.golden.includes(answer);
      const reason = answer === null ? 'there is no "#### NUMBER"' : `the answer was ${answer.slice(0, 100)}`;
      const parts = { format: Number(answer !== null) };
      return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason, parts });
    },

    oracle: async () =>
      await Promise.resolve([{ role: 'assistant', content: `<solution>#### ${record.golden[0] ?? ''}</solution>` }]),
  };
}

/** GSM8K's answers are whole solutions: what is after `####` counts. */
const numberRecord = searchRecord.transform((record) => ({
  ...record,
  golden: record.golden.map((one) =>
    one
      .slice(one.lastIndexOf('####') + (one.includes('####') ? 4 : 0))
      .replaceAll(',', '')
      .trim(),
  ),
}));

export const searchcodeEnvironment: Environment<z.output<typeof options>> = {
  name: 'searchcode',
  options,
  open: (given, io) => openSearchTasks(given, io, numberRecord, searchcodeTask),
};
