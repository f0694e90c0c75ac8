/**
 * Scripted demonstrations: the messages of one attempt at a task. Whether and how it is wrong depends only on the task
 * id, the requested quality, and a variant number.
 */

import { numbered } from '../../agents/tools/editor/view.ts';
import { type Problem, makeProblem } from './problem.ts';
import { workingTree, allPass, CHECK_COMMAND } from './repository.ts';
import type { Message, ToolCall } from '../../protocol/message.ts';
import { NOT_FINISHED } from '../../agents/tools/finish.ts';
import { createRandom, type Random } from '../random.ts';
import type { Edit, Family } from './draft.ts';
import { splitOfName, SYLLABLES } from './names.ts';

/** `right` repairs the bug, `mistake` makes the family's plausible wrong edit, `give-up` finishes without an edit. */
export type Outcome = 'right' | 'mistake' | 'give-up';

export interface Demonstration {
  readonly taskId: string;
  readonly family: Family;
  readonly outcome: Outcome;
  readonly messages: readonly Message[];
  /** Positions in `messages` of turns with a copying mistake, answered with an error. They are context, not targets. */
  readonly slips: readonly number[];
}

/**
 * Shares of outcomes per family in the `mixed` quality; the remaining share gives up. Mistakes prevail in half of the
 * families.
 */
export const MIX: Readonly<Record<Family, { readonly right: number; readonly mistake: number }>> = {
  'wrong-operator': { right: 0.55, mistake: 0.25 },
  'off-by-one': { right: 0.3, mistake: 0.55 },
  'swapped-arguments': { right: 0.3, mistake: 0.55 },
  'missing-return': { right: 0.3, mistake: 0.55 },
  'wrong-constant': { right: 0.55, mistake: 0.25 },
  'missing-base-case': { right: 0.55, mistake: 0.25 },
  'wrong-key': { right: 0.3, mistake: 0.55 },
  'wrong-comparison': { right: 0.55, mistake: 0.25 },
};

/** `clean`: all are right. `mixed`: the shares of `MIX`. `even`: a third of each outcome. */
export type Quality = 'clean' | 'mixed' | 'even';

const THIRDS = { right: 1 / 3, mistake: 1 / 3 } as const;

function call(name: string, args: Readonly<Record<string, string>>): ToolCall {
  return { name, arguments: args };
}

function turn(...calls: ToolCall[]): Message {
  return { role: 'assistant', content: '', toolCalls: calls };
}

function observation(name: string, content: string): Message {
  return { role: 'tool', name, content };
}

const FINISH = call('finish', {});

function searchTurn(problem: Problem): Message[] {
  if (problem.pathGiven) return [];
  const query = `def ${problem.target}`;
  return [turn(call('search', { query })), observation('search', found(query, problem))];
}

function sourceOf(problem: Problem): string {
  return problem.modules.find(({ path }) => path === problem.path)?.source ?? '';
}

function viewCall(path: string): ToolCall {
  return call('str_replace_editor', { command: 'view', path });
}

function viewTurn(problem: Problem): Message[] {
  return [turn(viewCall(problem.path)), observation('str_replace_editor', viewed(sourceOf(problem)))];
}

/** The wrong copies of a digit, or of a name (with another second syllable, within the same split). */
function slipsOf(word: string): readonly string[] {
  if (word.length === 1) return '23456789'.split('').filter((digit) => digit !== word);
  const names = SYLLABLES.map((syllable) => word.slice(0, 2) + syllable);
  return names.includes(word) ? names.filter((name) => name !== word && splitOfName(name) === splitOfName(word)) : [];
}

/** `text` with one copying mistake: another syllable in a name, or another digit. */
function slipped(text: string, random: Random): string {
  const places = [...text.matchAll(/\d|\b[a-z]{4}\b/g)].filter(([word]) => slipsOf(word).length > 0);
  if (places.length === 0) return text;
  const { 0: word, index } = random.pick(places);
  return text.slice(0, index) + random.pick(slipsOf(word)) + text.slice(index + word.length);
}

/** With probability 0.08: a view of a file that does not exist, and its answer. Otherwise empty. */
function viewSlip(problem: Problem, random: Random): Message[] {
  const path = slipped(problem.path, random);
  if (!random.chance(0.08) || path === problem.path) return [];
  return [turn(viewCall(path)), observation('str_replace_editor', missing(path))];
}

/**
 * With probability 0.15: an edit of a text that is not in the file, with the other calls of its turn, and their
 * answers. Otherwise empty.
 */
function editSlip(problem: Problem, edit: Edit, rest: readonly ToolCall[], random: Random): Message[] {
  const old = slipped(edit.old, random);
  if (!random.chance(0.15) || old === edit.new || sourceOf(problem).includes(old)) return [];
  return [
    turn(editCall(problem.path, { ...edit, old }), ...rest),
    observation('str_replace_editor', notFound(problem.path)),
    ...rest.map(({ name }) => observation(name, NOT_FINISHED)),
  ];
}

function editCall(path: string, edit: Edit): ToolCall {
  return call('str_replace_editor', { command: 'str_replace', path, old_str: edit.old, new_str: edit.new });
}

/** Share of attempts that finish in the same turn as the edit: each turn of a rollout has a cost of its own. */
const FINISHING = 0.85;

/** The edit and the end of the attempt. One in ten right attempts runs the tests. */
function editTurns(problem: Problem, edit: Edit, outcome: Outcome, roll: number): Message[] {
  const change = editCall(problem.path, edit);
  if (roll < FINISHING) return [turn(change, FINISH)];
  const checked = outcome === 'right' && roll > 0.9;
  return [
    turn(change),
    observation('str_replace_editor', edited(problem.path)),
    ...(checked ? [turn(call('bash', { command: CHECK_COMMAND })), observation('bash', allPass(problem))] : []),
    turn(FINISH),
  ];
}

function outcomeOf(family: Family, quality: Quality, roll: number): Outcome {
  if (quality === 'clean') return 'right';
  const { right, mistake } = quality === 'even' ? THIRDS : MIX[family];
  if (roll < right) return 'right';
  return roll < right + mistake ? 'mistake' : 'give-up';
}

/** Errors: `UnknownTask`. */
export function demonstrate(taskId: string, quality: Quality, variant = 0): Demonstration {
  const problem = makeProblem(taskId);
  const random = createRandom(`${taskId}/demonstration/${quality}/${variant}`);
  const [outcomeRoll, endingRoll] = [random.integer(0, 9999) / 10000, random.integer(0, 9999) / 10000];
  const outcome = outcomeOf(problem.family, quality, outcomeRoll);
  const start: Message[] = [{ role: 'user', content: problem.issue }, ...searchTurn(problem)];
  const edit = outcome === 'right' ? problem.fix : problem.mistake;
  const wrongView = viewSlip(problem, random);
  const view = viewTurn(problem);
  const wrongEdit =
    outcome === 'give-up' ? [] : editSlip(problem, edit, endingRoll < FINISHING ? [FINISH] : [], random);
  const rest = outcome === 'give-up' ? [turn(FINISH)] : editTurns(problem, edit, outcome, endingRoll);
  const messages = [...start, ...wrongView, ...view, ...wrongEdit, ...rest];
  const slips = [wrongView, wrongEdit].flatMap(([first]) => (first === undefined ? [] : [messages.indexOf(first)]));
  return { taskId, family: problem.family, outcome, messages, slips };
}

// The tools' answers, with their exact texts.
/** `str_replace_editor view` of a whole file that ends with a line end. */
function viewed(source: string): string {
  return numbered(source.slice(0, -1).split('\n'), 1);
}

/** `str_replace_editor str_replace`. */
function edited(path: string): string {
  return `Edited ${path}.`;
}

/** `str_replace_editor str_replace` of a text that the file does not hold. */
function notFound(path: string): string {
  return `Error: old_str is not in ${path}; copy it exactly, with its indentation.`;
}

/** Any command of `str_replace_editor` on a file that does not exist. */
function missing(path: string): string {
  return `Error: ${path} does not exist.`;
}

/** `search` for an exact text. */
function found(query: string, problem: Problem): string {
  return [...workingTree(problem)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([path, content]) =>
      content.split('\n').flatMap((line, i) => (line.includes(query) ? [`${path}:${i + 1}:${line}`] : [])),
    )
    .join('\n');
}
