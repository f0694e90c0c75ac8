/**
 * WebArena's verdict on an answer and on the state of the pages: the product of the evaluators that a record names. The
 * state was taken in the browser before; nothing is asked of a page here.
 */

import { decodeHTML } from 'entities';
import type { Verdict } from '../../protocol/stages.ts';
import type { Ask } from '../environment.ts';
import { fairAnswer } from '../fair-question.ts';
import { cleanAnswer, exactMatch, mustInclude, urlMatches } from './match.ts';
import type { Target, WebArenaRecord } from './record.ts';

/** What the browser showed in the end. */
export interface PageState {
  /** Of the last page. */
  readonly url: string;
  /** For each target of `program_html`, in order: the value of its locator. Absent: the page was wrong. */
  readonly values: ReadonlyArray<{ readonly value?: unknown; readonly failed?: string }>;
}

/** The wording is WebArena's (Apache-2.0): another one would be another verdict. */
const fuzzyQuestion = (answer: string, reference: string, intent: string): string =>
  'Help a teacher to grade the answer of a student given a question. Keep in mind that the student may use ' +
  'different phrasing or wording to answer the question. The goal is to evaluate whether the answer is ' +
  'semantically equivalent to the reference answer.\n' +
  `question: ${intent}\nreference answer: ${reference}\n` +
  "all the string 'N/A' that you see is a special sequence that means 'not achievable'\n" +
  `student answer: ${answer}\nConclude the judgement by correct/incorrect/partially correct.`;

const reasonQuestion = (answer: string, reference: string, intent: string): string =>
  'A task described in Task_1 cannot be completed for reason listed in Reason_1. ' +
  'A person tried to complete the task and failed, he reported his attempt in Report_1, check if Report_1 is ' +
  'refering to Reason_1, even implicitly. If match, return same, else, return different\n' +
  `Task_1 = ${intent}\nReason_1 = ${reference}\nReport_1 = ${answer}\nreturn [same] or [different]`;

/** Characters of an answer that a judge reads. */
const MOST_ANSWER = 8_000;

type Judge = (question: string) => Promise<string>;
type Wording = typeof fuzzyQuestion;

/** The words of a verdict: a reply that has one of `no` is no, else one with `yes` is yes. */
interface Words {
  readonly yes: string;
  readonly no: readonly string[];
}

/** A reply to this is never WebArena's first: it is asked if that has no verdict. */
const inOneWord = (question: string, { yes, no }: Words): string =>
  `${question}\nAnswer with one of these alone: ${[yes, ...no].join(', ')}.`;

/** False if the answer is why the judge gives no verdict. Errors: those of `fairAnswer`. */
async function isSame(
  { wording, reference, answer, intent }: { wording: Wording; reference: string; answer: string; intent: string },
  ask: Judge,
  words: Words,
): Promise<boolean> {
  const question = wording(answer.slice(0, MOST_ANSWER), reference, intent);
  const said = await fairAnswer({
    questions: [question, inOneWord(question, words)],
    control: wording(reference, reference, intent),
    ask,
    read: (reply) => {
      const text = reply.toLowerCase();
      if (words.no.some((word) => text.includes(word))) return false;
      return text.includes(words.yes) ? true : undefined;
    },
  });
  return said ?? false;
}

async function fuzzyMatch(reference: string, answer: string, intent: string, judge: Judge): Promise<boolean> {
  if (answer === '') return reference === '';
  const words = { yes: 'correct', no: ['incorrect', 'partially correct'] };
  return isSame({ wording: fuzzyQuestion, reference, answer, intent }, judge, words);
}

const sameReason = (reference: string, answer: string, intent: string, judge: Judge): Promise<boolean> =>
  isSame({ wording: reasonQuestion, reference, answer, intent }, judge, { yes: 'same', no: ['different'] });

async function stringScore(
  { intent, eval: { reference_answers: given, string_note: note } }: WebArenaRecord,
  answer: string,
  judge: Judge,
): Promise<number> {
  const pred = cleanAnswer(answer);
  const { exact_match: exact, must_include: included, fuzzy_match: fuzzy } = given ?? {};
  let score = 1;
  if (exact !== undefined) score *= Number(exactMatch(exact, pred));
  for (const one of included ?? []) score *= Number(mustInclude(one, pred, included?.length === 1));
  if (fuzzy === 'N/A') {
    score *= Number(exactMatch(fuzzy, pred));
    if (score !== 1) score = Number(await sameReason(note ?? '', pred, intent, judge));
  } else for (const one of fuzzy ?? []) score *= score === 0 ? 0 : Number(await fuzzyMatch(one, pred, intent, judge));
  return score;
}

/** A value as Python's `str` writes it. */
export function pythonText(value: unknown, isInside = false): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') {
    if (!isInside) return value;
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const inner = value
      .replaceAll('\\', '\\\\')
      .replaceAll('\n', '\\n')
      .replaceAll('\r', '\\r')
      .replaceAll('\t', '\\t');
    return quote + (quote === "'" ? inner.replaceAll("'", "\\'") : inner) + quote;
  }
  if (Array.isArray(value)) return `[${value.map((one) => pythonText(one, true)).join(', ')}]`;
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([name, one]) => `${pythonText(name, true)}: ${pythonText(one, true)}`)
      .join(', ')}}`;
  return String(value as number);
}

function contentMatches(
  { required_contents: { exact_match: exact, must_include: included }, locator }: Target,
  found: PageState['values'][number] | undefined,
): boolean {
  // As upstream: a locator that fails finds an empty text, and one that finds nothing (`null`) the word None.
  const isPage = locator.trim() === '';
  const raw =
    found === undefined || found.failed !== undefined
      ? ''
      : isPage
        ? pythonText(found.value ?? '')
        : pythonText(found.value);
  const content = decodeHTML(raw);
  if (exact !== undefined) return exactMatch(exact, content);
  return (included ?? []).every((one) => one.split(' |OR| ').some((each) => mustInclude(each, content, false)));
}

/** Grades an answer and the pages. `state`: needed by `url_match` and `program_html`; without one these are 0. */
export async function gradeWebArena(
  record: WebArenaRecord,
  answer: string,
  state: PageState | undefined,
  ask: Ask,
  judge?: string,
): Promise<Verdict> {
  const { eval_types: types, reference_url: reference, program_html: targets } = record.eval;
  const asked: Judge = (question) => ask(question, judge === undefined ? {} : { judge });
  const parts: Record<string, number> = {};
  for (const type of new Set(types)) {
    if (type === 'string_match') parts[type] = await stringScore(record, answer, asked);
    else if (type === 'url_match') parts[type] = Number(state !== undefined && urlMatches(reference ?? '', state.url));
    else
      parts[type] = Number(
        state !== undefined && (targets ?? []).every((target, at) => contentMatches(target, state.values[at])),
      );
  }
  const reward = Object.values(parts).reduce((product, part) => product * part, 1);
  const wrong = Object.keys(parts).filter((name) => parts[name] !== 1);
  return {
    code: 'graded',
    reward,
    passed: reward === 1,
    reason: wrong.length === 0 ? 'as wanted' : `not as wanted: ${wrong.join(', ')}`,
    parts,
  };
}
