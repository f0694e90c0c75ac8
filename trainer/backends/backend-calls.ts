/**
 * The functions of a defined backend as the rest of Longhaul calls them: each call has a deadline, each failure a
 * class, and no answer is used before it was checked.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { AdamWSettings } from '../../protocol/algorithm.ts';
import { messageWithPlace } from '../../modules/own-frame.ts';
import { folderOf, schemeOf } from '../../protocol/policy-uri.ts';
import type { TrainingSession } from '../backend.ts';
import { countTargets } from '../model/token-batch.ts';
import type { Pass, Scores, TokenStatistics } from '../passes.ts';
import type { Datum } from '../update-request.ts';
import type {
  BackendDefinition,
  PassAnswer,
  PolicyDescription,
  SampleAnswer,
  SampleRequest,
  SavedState,
  StateToOpen,
  StateToSave,
  TrainingPass,
  TrainingSequence,
} from './definition.ts';

/** A backend's function threw. */
export class BackendFailed extends Error {
  override readonly name = 'BackendFailed';
}

/** A backend's function did not return in its time. */
export class BackendTimedOut extends Error {
  override readonly name = 'BackendTimedOut';
}

/** A backend returned what cannot be true. It is neither recorded nor trained on. */
export class BackendAnswerWrong extends Error {
  override readonly name = 'BackendAnswerWrong';
}

const CALL_SECONDS = 600;
/** Sequences of one `forward`. */
const SCORED_AT_ONCE = 64;

const isCount = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && Number(value) >= least;
const isList = (value: unknown): value is ArrayLike<unknown> => Array.isArray(value) || ArrayBuffer.isView(value);

/** Calls of one backend. Errors of all of them: `BackendFailed`, `BackendTimedOut`, `BackendAnswerWrong`. */
export class BackendCalls<Session = unknown> {
  readonly definition: BackendDefinition<Session>;

  constructor(definition: BackendDefinition<Session>) {
    this.definition = definition;
  }

  async resolve(given: string, signal: AbortSignal): Promise<string | undefined> {
    const { definition } = this;
    if (definition.resolve === undefined) return undefined;
    return this.#uri(
      'resolve',
      await this.#call('resolve', signal, (own) => definition.resolve?.(given, own) ?? Promise.resolve(given)),
    );
  }

  async describe(uri: string, signal: AbortSignal): Promise<PolicyDescription> {
    const answered = await this.#call('describe', signal, (own) => this.definition.describe(uri, own));
    const { parameters, vocabulary, tokenizer, digest } = (answered ?? {}) as Partial<PolicyDescription>;
    const wrong = (field: string, value: unknown, right: string) => this.#wrong('describe', field, value, right);
    if (!isCount(parameters, 0)) wrong('parameters', parameters, 'is a whole number');
    if (!isCount(vocabulary, 1)) wrong('vocabulary', vocabulary, 'is a whole number of at least 1');
    if (typeof digest !== 'string' || digest === '') wrong('digest', digest, 'is a text');
    const place = typeof tokenizer === 'string' ? tokenizer : '';
    if (!place.startsWith('/') && folderOf(place) === undefined && schemeOf(place) !== 'hub')
      wrong('tokenizer', tokenizer, 'is an absolute path, or a URI with file: or hub:');
    return answered;
  }

  /** `vocabulary` of the policy's description. */
  async sample(request: SampleRequest, vocabulary: number, signal: AbortSignal): Promise<SampleAnswer> {
    const answer = await this.#call('sample', signal, (own) => this.definition.sample(request, own));
    const { tokens, logprobs, finish, stopText } = (answer ?? {}) as Partial<SampleAnswer>;
    const wrong = (field: string, value: unknown, right: string): never => this.#wrong('sample', field, value, right);
    const { maxTokens, stop = [] } = request.sampling;
    const least = finish === 'context' ? 0 : 1;
    if (!isList(tokens) || tokens.length < least || tokens.length > maxTokens)
      return wrong('tokens', lengthOf(tokens), `has ${least} to ${maxTokens} ids`);
    for (let i = 0; i < tokens.length; i++)
      if (!isCount(tokens[i], 0) || Number(tokens[i]) >= vocabulary)
        wrong(`tokens[${i}]`, tokens[i], `is an id below ${vocabulary}`);
    this.#logprobs('sample', 'logprobs', logprobs, tokens.length);
    if (finish !== 'stop' && finish !== 'length' && finish !== 'context')
      return wrong('finish', finish, 'is stop, length or context');
    if (finish === 'length' && tokens.length !== maxTokens)
      wrong('tokens', tokens.length, `has ${maxTokens} ids if finish is length`);
    if (stopText !== undefined && (finish !== 'stop' || !stop.includes(stopText)))
      wrong('stopText', stopText, 'is one of sampling.stop, with finish: stop');
    const last = Number(tokens[tokens.length - 1]);
    if (finish === 'stop' && stopText === undefined && !request.stopTokenIds.includes(last))
      wrong('tokens', last, `ends in one of the stop tokens ${request.stopTokenIds.join(', ')}`);
    return {
      tokens: Array.from(tokens, Number),
      logprobs: Array.from(logprobs ?? [], Number),
      finish,
      ...(stopText !== undefined && { stopText }),
    } as SampleAnswer;
  }

  /** Opens a saved state. The session's `saveState` and `publish` are not used: `save` returns URIs. */
  async open(state: StateToOpen, signal: AbortSignal): Promise<DefinedSession<Session>> {
    const session = await this.#call('open', signal, (own) => this.definition.open(state, own));
    return new DefinedSession(this, session, signal);
  }

  async forward(session: Session, data: readonly Datum[], signal: AbortSignal): Promise<Scores> {
    const scores = new Map<Datum, Float64Array>();
    const useful = data.filter((datum) => countTargets(datum) > 0);
    for (let from = 0; from < useful.length; from += SCORED_AT_ONCE) {
      const some = useful.slice(from, from + SCORED_AT_ONCE);
      const sequences = some.map(({ tokens, mask, temperatures }) => ({
        tokens,
        mask,
        ...(temperatures && { temperatures }),
      }));
      const answer = await this.#call('forward', signal, (own) => this.definition.forward(session, sequences, own));
      if (!isList(answer) || answer.length !== some.length)
        return this.#wrong('forward', 'the answer', lengthOf(answer), `has ${some.length} lists`);
      for (const [i, datum] of some.entries())
        scores.set(datum, this.#logprobs('forward', `[${i}]`, answer[i], countTargets(datum)));
    }
    return scores;
  }

  async forwardBackward(session: Session, given: Pass, signal: AbortSignal): Promise<TokenStatistics> {
    const count = given.sequences.reduce((sum, { sample }) => sum + sample.count, 0);
    const entropies = this.definition.entropy && (given.entropies || given.entropyWeight > 0);
    const pass: TrainingPass = { ...given, entropies, sequences: given.sequences.map(trainingSequence) };
    const answer = await this.#call('forwardBackward', signal, (own) =>
      this.definition.forwardBackward(session, pass, own),
    );
    const answered = (answer ?? {}) as Partial<PassAnswer>;
    const logprobs = this.#logprobs('forwardBackward', 'logprobs', answered.logprobs, count);
    const own = entropies ? this.#numbers('forwardBackward', 'entropies', answered.entropies, count) : undefined;
    return { logprobs: Float32Array.from(logprobs), entropies: own && Float32Array.from(own) };
  }

  async optimStep(session: Session, settings: AdamWSettings, signal: AbortSignal): Promise<number | null> {
    const { learningRate, betas, epsilon, weightDecay, maxGradNorm } = settings;
    const step = { learningRate, betas, epsilon, weightDecay, maxGradNorm };
    const answered = await this.#call('optimStep', signal, (own) => this.definition.optimStep(session, step, own));
    const norm = (answered as { gradNorm?: unknown } | undefined)?.gradNorm;
    if (norm === null || (typeof norm === 'number' && Number.isFinite(norm) && norm >= 0)) return norm;
    return this.#wrong('optimStep', 'gradNorm', norm, 'is null or a finite number of at least 0');
  }

  async saveState(session: Session, state: StateToSave, signal: AbortSignal): Promise<SavedState> {
    const answered = await this.#call('saveState', signal, (own) => this.definition.saveState(session, state, own));
    const { uri, sha256 } = (answered ?? {}) as Partial<SavedState>;
    if (sha256 !== null && !/^[0-9a-f]{64}$/.test(sha256 ?? ''))
      this.#wrong('saveState', 'sha256', sha256, 'is null or 64 hexadecimal digits');
    return { uri: this.#uri('saveState', uri), sha256: sha256 ?? null };
  }

  async saveForSampler(session: Session, state: StateToSave, signal: AbortSignal): Promise<string> {
    const answered = await this.#call('saveForSampler', signal, (own) =>
      this.definition.saveForSampler(session, state, own),
    );
    return this.#uri('saveForSampler', (answered as { uri?: unknown } | undefined)?.uri);
  }

  /** What was worth keeping is saved: a failure to close changes nothing. */
  async close(session: Session): Promise<void> {
    const { definition } = this;
    const never = new AbortController().signal;
    if (definition.close !== undefined)
      await this.#call('close', never, () => definition.close?.(session) ?? Promise.resolve()).catch(() => undefined);
  }

  async #call<T>(name: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const { name: backend, callSeconds = CALL_SECONDS } = this.definition;
    const end = new AbortController();
    const over = new AbortController();
    const late = sleep(callSeconds * 1000, undefined, { signal: AbortSignal.any([signal, end.signal]) }).then(() => {
      const error = new BackendTimedOut(`backend ${backend}: ${name} did not return within ${callSeconds} s`);
      over.abort(error);
      throw error;
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([work(AbortSignal.any([signal, over.signal])), late]);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BackendTimedOut) throw error;
      if (over.signal.aborted) throw over.signal.reason;
      const kind = error instanceof Error ? `${error.name}: ` : '';
      throw new BackendFailed(`backend ${backend}: ${name} threw ${kind}${messageWithPlace(error)}`);
    } finally {
      end.abort();
    }
  }

  #wrong(call: string, field: string, value: unknown, right: string): never {
    const shown = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'missing').slice(0, 100);
    throw new BackendAnswerWrong(
      `backend ${this.definition.name}: ${call} returned ${field} ${shown}, which is wrong: it ${right}`,
    );
  }

  #numbers(call: string, field: string, values: unknown, count: number): Float64Array {
    if (!isList(values) || values.length !== count)
      return this.#wrong(call, field, lengthOf(values), `has ${count} numbers`);
    const numbers = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const value = values[i];
      if (typeof value !== 'number' || !Number.isFinite(value)) this.#wrong(call, `${field}[${i}]`, value, 'is finite');
      numbers[i] = value as number;
    }
    return numbers;
  }

  #logprobs(call: string, field: string, values: unknown, count: number): Float64Array {
    const numbers = this.#numbers(call, field, values, count);
    const above = numbers.findIndex((value) => value > 0);
    if (above >= 0) this.#wrong(call, `${field}[${above}]`, numbers[above], 'is at most 0');
    return numbers;
  }

  #uri(call: string, uri: unknown): string {
    const { schemes } = this.definition;
    if (typeof uri === 'string' && schemes.includes(schemeOf(uri) ?? '')) return uri;
    return this.#wrong(call, 'uri', uri, `has one of the schemes ${schemes.join(', ')}`);
  }
}

const lengthOf = (values: unknown): unknown => (isList(values) ? `of ${values.length} entries` : values);

const trainingSequence = ({
  sample,
  tokens,
  mask,
  temperatures,
  advantages,
}: Pass['sequences'][number]): TrainingSequence => ({
  tokens,
  mask,
  ...(temperatures && { temperatures }),
  advantages,
  recorded: sample.recorded,
  old: sample.old,
  ...(sample.reference && { reference: sample.reference }),
});

/** A session of a defined backend, as an update uses it. */
export class DefinedSession<Session = unknown> implements Pick<
  TrainingSession,
  'forward' | 'forwardBackward' | 'release'
> {
  readonly #calls: BackendCalls<Session>;
  readonly #session: Session;
  readonly #signal: AbortSignal;

  constructor(calls: BackendCalls<Session>, session: Session, signal: AbortSignal) {
    this.#calls = calls;
    this.#session = session;
    this.#signal = signal;
  }

  forward(data: readonly Datum[]): Promise<Scores> {
    return this.#calls.forward(this.#session, data, this.#signal);
  }

  forwardBackward(pass: Pass): Promise<TokenStatistics> {
    return this.#calls.forwardBackward(this.#session, pass, this.#signal);
  }

  optimStep(settings: AdamWSettings): Promise<number | null> {
    return this.#calls.optimStep(this.#session, settings, this.#signal);
  }

  /** The training state, and what is sampled: both are complete when it returns. */
  async save(state: StateToSave): Promise<SavedState & { readonly sampled: string }> {
    const saved = await this.#calls.saveState(this.#session, state, this.#signal);
    return { ...saved, sampled: await this.#calls.saveForSampler(this.#session, state, this.#signal) };
  }

  release(): Promise<void> {
    return this.#calls.close(this.#session);
  }
}
