/**
 * What the policy reads after a search, in SkyRL-Gym's form: `{"result": "Doc 1: …"}`. A retrieval server that gives
 * nothing usable is an error (`ServiceUnavailable`), or is told to the policy if the configuration asks for that.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type RetrievalOptions, retrievalOptions, retrieve } from '../../agents/retrieval/retriever.ts';
import { isOfQuery, type Within } from '../../agents/retrieval/retrieval-server.ts';
import { ServiceUnavailable } from '../../agents/web/service-unavailable.ts';
import { stripped } from '../../protocol/python-text.ts';

/** Options of environments whose `step` searches. */
export const searchOptions = {
  ...retrievalOptions,
  /**
   * A retrieval server that is down. `hold`: the rollout waits and its run pauses. `observe`: the policy reads of the
   * error and continues, as in SkyRL-Gym; what it then does is trained on.
   */
  whenDown: z.enum(['hold', 'observe']).default('hold'),
};

export type SearchSettings = RetrievalOptions & {
  readonly whenDown: 'hold' | 'observe';
  readonly digest?: string | undefined;
};

/** JSON with all characters above ASCII escaped, and spaces after commas and colons: as Python writes it. */
function pythonJson(result: string): string {
  const escaped = JSON.stringify(result).replaceAll(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `{"result": ${escaped}}`;
}

/** An answer of a server that has not the form of the API. Its message is Python's, which policies of SkyRL read. */
class Misshapen extends Error {
  override readonly name = 'Misshapen';
}

function pythonType(value: unknown): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float';
  if (typeof value === 'object') return Array.isArray(value) ? 'list' : 'dict';
  return typeof value === 'string' ? 'str' : 'bool';
}

const isDict = (value: unknown): value is Readonly<Record<string, unknown>> => pythonType(value) === 'dict';

/** Python's `value[name]`. */
function fieldOf(value: unknown, name: string): unknown {
  if (isDict(value)) {
    if (Object.hasOwn(value, name)) return value[name];
    throw new Misshapen(`'${name}'`);
  }
  if (Array.isArray(value)) throw new Misshapen('list indices must be integers or slices, not str');
  if (typeof value === 'string') throw new Misshapen("string indices must be integers, not 'str'");
  throw new Misshapen(`'${pythonType(value)}' object is not subscriptable`);
}

/** What Python's `for` takes one after the other. */
function itemsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value === 'string') return Array.from(value);
  if (isDict(value)) return Object.keys(value);
  throw new Misshapen(`'${pythonType(value)}' object is not iterable`);
}

const lacks = (value: unknown, method: string): Misshapen =>
  new Misshapen(`'${pythonType(value)}' object has no attribute '${method}'`);

function documentText(item: unknown, i: number): string {
  const contents = fieldOf(fieldOf(item, 'document'), 'contents');
  if (typeof contents !== 'string') throw lacks(contents, 'strip');
  return `Doc ${i + 1}: ${stripped(contents)}\n`;
}

const isEmpty = (value: unknown): boolean => !value || (typeof value === 'object' && Object.keys(value).length === 0);

/** The text of a server's answer. Errors: `Misshapen`. */
function resultText(answer: unknown): string {
  if (!isDict(answer)) throw lacks(answer, 'get');
  const result = Object.hasOwn(answer, 'result') ? answer['result'] : [];
  if (isEmpty(result)) return 'No search results found.';
  return itemsOf(result)
    .map((found) => itemsOf(found).map(documentText).join(''))
    .join('\n---\n');
}

const UNKNOWN_STATE = 'Unknown API state (no response and no error message).';

function shown(answer: unknown, { whenDown, searchUrl = '' }: SearchSettings): string {
  const broken = (text: string, why: string): string => {
    if (whenDown === 'observe') return text;
    throw new ServiceUnavailable('answer', `${searchUrl} answered in another form than SkyRL's retrieval API (${why})`);
  };
  if (isEmpty(answer)) return broken(UNKNOWN_STATE, 'it is empty');
  try {
    return resultText(answer);
  } catch (error) {
    if (!(error instanceof Misshapen)) throw error;
    return broken(`Error processing search results: ${error.message}`, error.message);
  }
}

/** The same in each execution: what the policy reads must not depend on the worker. */
const requestId = (query: string): string => createHash('sha256').update(query).digest('hex').slice(0, 32);

/** Searches, and returns the JSON text for the policy. Errors: `ServiceUnavailable`; those of the corpus. */
export async function searchResult(settings: SearchSettings, query: string, within: Within): Promise<string> {
  const asked = stripped(query);
  let answer: unknown;
  try {
    answer = await retrieve(settings, asked, within);
  } catch (error) {
    if (!(error instanceof ServiceUnavailable) || (settings.whenDown === 'hold' && !isOfQuery(error))) throw error;
    return pythonJson(`Search error: [Search Request ID: ${requestId(asked)}] ${error.message}`);
  }
  return pythonJson(shown(answer, settings));
}
