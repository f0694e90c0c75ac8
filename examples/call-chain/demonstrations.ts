/**
 * The chats from which the starter of call-chain learns, of splits that no run draws. With `code_search` it is used in
 * about half of the places where it fits; without it, nothing refers to it.
 */

import type { ToolCall } from 'longhaul';
import { type Draw, draws } from '../support/draw.ts';
import { type ChatMessage, observed, user } from '../support/records.ts';
import { defined, referenced, searched, viewed } from './observations.ts';
import { CALLS, type Definition, pathOf, type Problem, problemOf } from './repository.ts';

/** Whether the task offers `code_search`. */
export type Arm = 'with' | 'without';

export const TOOLS: Readonly<Record<Arm, readonly string[]>> = {
  with: ['code_search', 'search', 'str_replace_editor', 'finish'],
  without: ['search', 'str_replace_editor', 'finish'],
};

/** The policy's template lists no tools: the question does. */
export function questionOf({ direction, chain: [symptom] }: Problem, arm: Arm): string {
  const name = symptom?.name ?? '';
  const what =
    direction === 'down'
      ? `${name} returns a wrong value: repair what it calls.`
      : `${name} receives a wrong value: repair what calls it.`;
  return `${what} Tools: ${arm === 'with' ? 'code_search, search' : 'search'}.`;
}

type Step = { readonly call: ToolCall; readonly answer: string };

const lookedUp = (problem: Problem, one: Definition, query: string): Step => ({
  call: { name: 'search', arguments: { query } },
  answer: searched(problem, one.name, query),
});

/** Where a function is defined. */
function findDefinition(problem: Problem, one: Definition, byCode: boolean): Step {
  if (!byCode) return lookedUp(problem, one, `def ${one.name}`);
  return { call: { name: 'code_search', arguments: { action: 'definitions', query: one.name } }, answer: defined(one) };
}

function view(one: Definition): Step {
  const range = [one.line, one.line + 2];
  return {
    call: { name: 'str_replace_editor', arguments: { command: 'view', path: pathOf(one.file), view_range: range } },
    answer: viewed(one),
  };
}

/** From a function to its caller. `code_search` says its name; after `search`, its lines do. */
function findCaller(problem: Problem, at: number, byCode: boolean): readonly Step[] {
  const [one, caller] = [problem.chain[at], problem.chain[at + 1]];
  if (one === undefined || caller === undefined) return [];
  if (!byCode) return [lookedUp(problem, one, `return ${one.name}(`), view(caller)];
  const asked = { action: 'references', query: one.name };
  const found: Step = { call: { name: 'code_search', arguments: asked }, answer: referenced(problem, one.name) };
  return at + 1 === CALLS ? [found, view(caller)] : [found];
}

/** From the symptom to the view of the bug. */
function walk(problem: Problem, byCode: () => boolean): Step[] {
  if (problem.direction === 'up')
    return Array.from({ length: CALLS }, (_, at) => findCaller(problem, at, byCode())).flat();
  return problem.chain.flatMap((one) => [findDefinition(problem, one, byCode()), view(one)]);
}

/** Repairs the bug, with `sum` as its number. */
function repair({ bug }: Problem, sum: number): ToolCall {
  const command = 'str_replace';
  const change = { old_str: `x + ${bug.adds ?? 0}`, new_str: `x + ${sum}` };
  return { name: 'str_replace_editor', arguments: { command, path: pathOf(bug.file), ...change } };
}

const FINISH: ToolCall = { name: 'finish', arguments: {} };

/** The calls of a solution, message by message. */
export const solution = (problem: Problem, arm: Arm): ReadonlyArray<readonly ToolCall[]> => [
  ...walk(problem, () => arm === 'with').map(({ call }) => [call]),
  [repair(problem, problem.right), FINISH],
];

const written = (calls: readonly ToolCall[]): ChatMessage => ({
  role: 'assistant',
  content: '',
  tool_calls: calls.map(({ name, arguments: given }) => ({
    function: {
      name,
      arguments: Object.fromEntries(
        Object.entries(given).map(([key, value]) => [
          key,
          typeof value === 'string' ? value : JSON.stringify(value).replaceAll(',', ', '),
        ]),
      ),
    },
  })),
});

const shown = ({ call, answer }: Step): readonly ChatMessage[] => [written([call]), observed(call.name, answer)];

const armOf = (n: number): Arm => (n % 4 < 2 ? 'with' : 'without');
const question = (problem: Problem, arm: Arm): ChatMessage => user(questionOf(problem, arm));
const choice = (draw: Draw, arm: Arm): (() => boolean) => (arm === 'with' ? () => draw.chance(0.5) : () => false);

/** One or two steps of a solution: reading an answer is learned in short chats first. */
export function drill(n: number): readonly ChatMessage[] {
  const [problem, arm, draw] = [problemOf('drill', n), armOf(n), draws(`call-chain drill ${n}`)];
  const steps = walk(problem, choice(draw, arm));
  const from = draw.integer(0, steps.length - 1);
  const some = steps.slice(from, from + 2).flatMap(shown);
  const isEnd = from + 2 >= steps.length;
  return [
    question(problem, arm),
    ...some.map((message, i) => (i === 0 && from > 0 ? { ...message, weight: 0 as const } : message)),
    ...(isEnd ? [written([repair(problem, problem.right), FINISH])] : []),
  ];
}

/** Every problem is solved. */
export function clean(n: number): readonly ChatMessage[] {
  const [problem, arm, draw] = [problemOf('demonstration', n), armOf(n), draws(`call-chain clean ${n}`)];
  const steps = walk(problem, choice(draw, arm)).flatMap(shown);
  return [question(problem, arm), ...steps, written([repair(problem, problem.right), FINISH])];
}

/** Less than half of the problems are solved. The others are given up, or repaired with a number of the function. */
export function mixed(n: number): readonly ChatMessage[] {
  const [problem, arm, draw] = [problemOf('mixed', n), armOf(n), draws(`call-chain mixed ${n}`)];
  const steps = walk(problem, choice(draw, arm));
  const start = question(problem, arm);
  if (draw.chance(0.3))
    return [start, ...steps.slice(0, draw.integer(1, steps.length - 1)).flatMap(shown), written([FINISH])];
  const own = Number(/\d+/u.exec(problem.bug.name)?.[0]);
  const sum = draw.chance(0.4) ? own : problem.right;
  return [start, ...steps.flatMap(shown), written([repair(problem, sum), FINISH])];
}
