/**
 * `ctx.ask`: a task's functions and tools ask a judge. Each answer is recorded before it is returned, under the
 * question and the place that asked: a retry reads it, and no answered question is asked again. If a judge cannot be
 * asked, the execution fails as `judge-unavailable`, whatever the asking code makes of it.
 */

import { createHash } from 'node:crypto';
import { promptTokensAbout } from '../endpoints/chat.ts';
import { EndpointClient } from '../endpoints/endpoint-client.ts';
import { EndpointError } from '../endpoints/endpoint-error.ts';
import { costOf } from '../protocol/budget.ts';
import type { AskExchange, AskRecord, Judge, Judges } from '../protocol/judge.ts';
import type { ChatAnswer } from '../protocol/endpoint.ts';
import { keys } from '../protocol/record-keys.ts';
import type { Asking, Attempt } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { byJudge, spentEvent } from '../reports/spending.ts';
import type { Store } from '../store/store.ts';
import type { Ask, Question } from '../tasks/environment.ts';
import { checkBudget } from './budgets.ts';
import { JudgeUnavailable, QuestionRefused } from './failures.ts';
import { endpointFailure } from './generate/endpoint-failure.ts';
import { activityDeadline, OwnClock, within } from './own-time.ts';
import type { Patience } from './own-patience.ts';

/** What asking needs of the worker. */
export interface AskDeps {
  readonly store: Store;
  /** Default: one for the process, with its environment. */
  readonly endpoints?: EndpointClient;
}

export interface AskedBy {
  readonly attempt: Attempt & Asking;
  /** `start`, `step/TURN`, `tool/TURN/INDEX` or `grade`. */
  readonly place: string;
  readonly signal: AbortSignal;
  /** Milliseconds from now until the asking function must have ended, if that is before the activity's own end. */
  readonly withinMs?: number | undefined;
}

/** `ask` and `deadline` of a context. */
export interface Asks {
  readonly ask: Ask;
  readonly deadline: number;
}

let own: EndpointClient | undefined;

/** Time that remains to report that a judge gave no answer. */
const REPORT_MS = 2_000;
const REPORT_SHARE = 0.1;
const CHARACTERS_A_TOKEN = 4;
const ROLES: ReadonlySet<unknown> = new Set(['system', 'user', 'assistant']);

function messagesOf(question: Question): Array<{ readonly role: string; readonly content: string }> {
  const messages = typeof question === 'string' ? [{ role: 'user', content: question }] : question;
  const isOne = (given: unknown) => {
    const { role, content } = (given ?? {}) as { role?: unknown; content?: unknown };
    return ROLES.has(role) && typeof content === 'string';
  };
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isOne))
    throw new TypeError('ctx.ask takes a text, or messages: [{ role: system, user or assistant, content: a text }]');
  return messages.map(({ role, content }) => ({ role, content }));
}

/** Errors: `UserInputError` if there is no such judge, or if none is named and there is not exactly one. */
function judgeNamed(judges: Judges, asked: string | undefined): readonly [name: string, judge: Judge] {
  const names = Object.keys(judges);
  const name = asked ?? (names.length === 1 ? names[0] : undefined);
  const judge = name === undefined || !Object.hasOwn(judges, name) ? undefined : judges[name];
  if (name !== undefined && judge !== undefined) return [name, judge];
  const known = names.length === 0 ? 'none is configured' : `configured: ${names.join(', ')}`;
  throw new UserInputError(
    'judges',
    asked ?? null,
    `ctx.ask has no such judge (${known}): give judges: { ${asked ?? 'NAME'}: { endpoint: { baseUrl, model } } } ` +
      'in the configuration' +
      `${names.length > 1 && asked === undefined ? ', or name the judge: ctx.ask(question, { judge })' : ''}`,
  );
}

function failureOf(error: unknown, name: string, { endpoint }: Judge): unknown {
  if (!(error instanceof EndpointError)) return error;
  const { kind, message, isTransient, retryAfterMs } = error;
  if (isTransient) {
    const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
    return new JudgeUnavailable(name, `${endpoint.baseUrl}: ${message}`, wait);
  }
  if (kind === 'bad-request' || kind === 'context' || kind === 'unreadable')
    return new QuestionRefused(`judge ${name} refuses the question (${kind}: ${message})`);
  return new JudgeUnavailable(name, endpointFailure(error, endpoint, `judges.${name}.endpoint`).message, {
    isFinal: true,
  });
}

/** What the server counted, or an estimate. */
function countOf(messages: readonly { readonly content: string }[], text: string, { usage }: ChatAnswer) {
  if (usage && usage.promptTokens > 0)
    return { promptTokens: usage.promptTokens, sampledTokens: usage.completionTokens };
  const promptTokens = promptTokensAbout({ messages: messages.map((message) => ({ ...message })), tools: [] });
  return { promptTokens, sampledTokens: Math.ceil(text.length / CHARACTERS_A_TOKEN), estimated: true as const };
}

/** The questions of one execution. */
class Asker {
  readonly #by: AskedBy;
  readonly #deps: AskDeps;
  readonly #deadline: number;
  /** How often each question was asked in this execution. */
  readonly #times = new Map<string, number>();
  /** The first failure that the asking code may not decide about. */
  failure: unknown;

  constructor(by: AskedBy, deps: AskDeps, deadline: number) {
    this.#by = by;
    this.#deps = deps;
    this.#deadline = deadline;
  }

  async ask(question: Question, asked?: string): Promise<string> {
    const { attempt, signal } = this.#by;
    if (this.failure !== undefined) throw this.failure;
    const messages = messagesOf(question);
    try {
      signal.throwIfAborted();
      const [name, judge] = judgeNamed(attempt.judges ?? {}, asked);
      return await this.#answered(name, judge, messages);
    } catch (error) {
      if (!(error instanceof QuestionRefused)) this.failure ??= error;
      throw error;
    }
  }

  async #answered(name: string, judge: Judge, messages: ReturnType<typeof messagesOf>): Promise<string> {
    const { attempt, place } = this.#by;
    const { store } = this.#deps;
    const digest = createHash('sha256')
      .update(JSON.stringify([name, judge.sampling, messages]))
      .digest('hex');
    const number = (this.#times.get(digest) ?? 0) + 1;
    this.#times.set(digest, number);
    const key = keys.ask(attempt, place, digest.slice(0, 16), number);
    const record = (await store.get<AskRecord>(key)) ?? (await this.#call(key, name, judge, messages));
    const { promptTokens, sampledTokens, usd, seconds } = record;
    const call = key.slice(keys.asks(attempt).length);
    // Again after a lost worker: an event of the same call is stored once.
    await store.append([
      spentEvent(attempt, {
        by: byJudge(record.judge),
        call,
        prompt: promptTokens,
        sampled: sampledTokens,
        ...(usd !== undefined && { usd }),
        seconds,
      }),
    ]);
    return (JSON.parse(Buffer.from(await store.getObject(record.exchange)).toString()) as AskExchange).answer;
  }

  async #call(key: string, name: string, judge: Judge, messages: ReturnType<typeof messagesOf>): Promise<AskRecord> {
    const { store, endpoints = (own ??= new EndpointClient()) } = this.#deps;
    const { attempt, signal, place } = this.#by;
    const { endpoint, sampling } = judge;
    await checkBudget(attempt.run, store, { judge: name, budget: judge.budget });
    await store.begin(`judge:${key}`);
    const begun = performance.now();
    const left = this.#deadline - Date.now();
    const ms = left - Math.min(REPORT_MS, left * REPORT_SHARE);
    const over = () => new JudgeUnavailable(name, `${endpoint.baseUrl}: no answer in the time of ${place}`, {});
    const answer = await within({ ms, clock: new OwnClock(), over }, signal, (own_) =>
      endpoints.chat(endpoint, { messages, tools: [], sampling: { ...sampling, topK: 0 } }, own_),
    ).catch((error: unknown) => {
      throw failureOf(error, name, judge);
    });
    const seconds = Math.round(performance.now() - begun) / 1000;
    const text = answer.turn.content || (answer.turn.refusal ?? '');
    const count = countOf(messages, text, answer);
    const usd = costOf(endpoint.pricePerMillionTokens, count.promptTokens, count.sampledTokens);
    const said: AskExchange = { question: messages, answer: text };
    return store.putOnceWithObject<AskRecord>(key, Buffer.from(JSON.stringify(said)), (exchange) => ({
      judge: name,
      model: endpoint.model,
      exchange,
      ...count,
      ...(usd !== undefined && { usd }),
      seconds,
      at: new Date().toISOString(),
    }));
  }
}

/**
 * Runs `work` with questions to the attempt's judges. Errors: those of `work`; if a judge could not be asked, that
 * failure, also if `work` caught it: no verdict is made without an answer.
 */
export async function withAsk<T>(by: AskedBy, deps: AskDeps, work: (asks: Asks) => Promise<T>): Promise<T> {
  const deadline = Math.min(activityDeadline(), Date.now() + (by.withinMs ?? Number.POSITIVE_INFINITY));
  const asker = new Asker(by, deps, deadline);
  try {
    const result = await work({ ask: (question, { judge } = {}) => asker.ask(question, judge), deadline });
    if (asker.failure === undefined) return result;
  } catch (error) {
    throw asker.failure ?? error;
  }
  throw asker.failure;
}

/** How long an activity is retried while a judge is down: as long as the most patient endpoint says. */
export function patienceWithJudges({ judges = {} }: Asking): { readonly patience?: Patience } {
  const seconds = Object.values(judges).map(({ endpoint }) => endpoint.patienceSeconds);
  if (seconds.length === 0) return {};
  const most = Math.max(...seconds);
  const message = (why: string) => `${why} (for ${most} s, by patienceSeconds)`;
  return { patience: { failure: 'judge-unavailable', ms: most * 1000, message } };
}
