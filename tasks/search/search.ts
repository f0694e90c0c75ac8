/**
 * `search`: questions that the policy answers with passages it searches for, by SkyRL-Gym's protocol. `<search>` asks,
 * `<information>` answers, and the last `<answer>` of the whole conversation is compared with the golden answers. Each
 * rollout ends after `maxTurns`.
 */

import { z } from 'zod';
import type { Within } from '../../agents/retrieval/retrieval-server.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { Environment, Task, Work } from '../environment.ts';
import { stripped } from '../../protocol/python-text.ts';
import { exactMatch } from '../qa/answer-match.ts';
import { searchResult } from './information.ts';
import {
  type AskedRecord,
  matchedRecord,
  openSearchTasks,
  promptOf,
  questionText,
  type SearchTaskSettings,
  searchTaskOptions,
} from './question-records.ts';

const INSTRUCTION =
  'Answer the question below. First think about what you know and what you need to find out. To search, ' +
  'write your query between <search> and </search>, and end your message there: ' +
  'the passages follow between <information> and </information>. Search as often as you need. ' +
  'When you know the answer, write it, short and without explanation, between <answer> and </answer>.';

const options = searchTaskOptions(INSTRUCTION);

const OPEN = '<answer>';
const CLOSE = '</answer>';

/** The content of the last `<answer>…</answer>`, without outer spaces. `undefined` if there is none. */
export function lastAnswer(text: string): string | undefined {
  let found: string | undefined;
  for (let from = text.indexOf(OPEN); from >= 0;) {
    const end = text.indexOf(CLOSE, from + OPEN.length);
    if (end < 0) break;
    found = stripped(text.slice(from + OPEN.length, end));
    from = text.indexOf(OPEN, end + CLOSE.length);
  }
  return found;
}

/** JSON that `step` returns. */
const stateSchema = z.object({ turns: z.int() });

/** The first query of a message. `undefined` if there is none. */
export function queryIn(message: string): string | undefined {
  const from = message.indexOf('<search>');
  const end = from < 0 ? -1 : message.indexOf('</search>', from);
  return end < 0 ? undefined : message.slice(from + '<search>'.length, end);
}

export const endsWithAnswer = (message: string): boolean =>
  message.includes('<answer>') && message.includes('</answer>');

/** All that was said after the task's own messages. */
export const saidAfter = ({ transcript }: Work, opening: number): readonly string[] =>
  transcript.slice(opening).map(({ content }) => content);

function verdict(chat: string, golden: readonly string[]): Verdict {
  const answer = lastAnswer(chat);
  const passed = answer !== undefined && exactMatch(answer, golden);
  const reason =
    answer === undefined ? 'there is no <answer>' : `the answer was ${JSON.stringify(answer.slice(0, 200))}`;
  return { code: 'graded', reward: Number(passed), passed, reason, parts: { format: Number(answer !== undefined) } };
}

/** `wait`: between tries at the retrieval server; absent: real time. */
export function searchTask(record: AskedRecord, settings: SearchTaskSettings, wait?: Within['wait']): Task {
  const messages = promptOf(record, settings.instruction);
  return {
    messages,
    tools: [],
    gradedIn: 'none',
    start: async () => await Promise.resolve({ state: { turns: 0 } }),

    async step({ signal, deadline }, state, message) {
      const turns = stateSchema.parse(state).turns + 1;
      if (turns >= settings.maxTurns || endsWithAnswer(message)) return { state: { turns }, messages: [], done: true };
      const query = queryIn(message);
      const within = { signal, deadline, ...(wait && { wait }) };
      const found = query === undefined ? '' : await searchResult(settings, query, within);
      const content = `\n<information>${found}</information>\n`;
      const metrics = { searches: Number(query !== undefined) };
      return { state: { turns }, messages: [{ role: 'user', content }], metrics };
    },

    grade: async (_ctx, work) =>
      await Promise.resolve(verdict(saidAfter(work, messages.length).join(''), record.golden)),

    async oracle() {
      const answer = { role: 'assistant', content: `<answer>${record.golden[0] ?? ''}</answer>` } as const;
      const search = { role: 'assistant', content: `<search>${questionText(record)}</search>` } as const;
      return await Promise.resolve(settings.maxTurns > 1 ? [search, answer] : [answer]);
    },
  };
}

export const searchEnvironment: Environment<z.output<typeof options>> = {
  name: 'search',
  options,
  open: (given, io) => openSearchTasks(given, io, matchedRecord, searchTask),
};
