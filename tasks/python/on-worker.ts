/**
 * Plays episodes in a process of the worker. Live objects are kept by what was said in their episodes: a step takes the
 * one that fits, or makes it again. So neither a killed process nor a killed worker costs an episode.
 */

import { answerOf, type Answer, begun, checkReplay, continued, type Episode } from './episode.ts';
import { type Interpreter, PythonEnded, PythonFailed, processOf, type PythonProcess } from './python-process.ts';

/** What an environment is made of. */
export interface Recipe {
  /** `module:Class`, `module:load_environment`, or an id of SkyRL-Gym. */
  readonly env: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly extras: Readonly<Record<string, unknown>>;
  readonly prompt: ReadonlyArray<{ readonly role: string; readonly content: string }>;
  /** True: replies have a pickle of the object. */
  readonly pickled: boolean;
}

/** Where episodes are played. */
export interface Player {
  start(recipe: Recipe, owner: string): Promise<{ readonly episode: Episode; readonly answer: Answer }>;
  step(
    recipe: Recipe,
    owner: string,
    episode: Episode,
    action: string,
  ): Promise<{ readonly episode: Episode; readonly answer: Answer }>;
}

/** Live objects of one process. The oldest is closed first. */
const MOST_LIVE = 512;
/** Processes that one call may lose. Others' time-outs, which end the process too, count apart. */
const MOST_LOST = 3;
const MOST_DISTURBED = 20;

/** Of one process: the numbers of its objects, by the episode that they are at. */
const live = new WeakMap<PythonProcess, Map<string, number>>();
let made = 0;

const keyOf = (owner: string, { replies }: Pick<Episode, 'replies'>): string => `${owner} ${replies.join(' ')}`;

function liveIn(process: PythonProcess): Map<string, number> {
  const known = live.get(process) ?? new Map<string, number>();
  live.set(process, known);
  return known;
}

export class OnWorker implements Player {
  readonly #interpreter: Interpreter;
  readonly #seconds: number;

  constructor(interpreter: Interpreter, seconds: number) {
    this.#interpreter = interpreter;
    this.#seconds = seconds;
  }

  /** Imports the environment, and makes one of `verifiers`. Errors: `PythonFailed`, `PythonTimedOut`. */
  async check(env: string, config: Recipe['config']): Promise<void> {
    await this.#inProcess((process) => process.request({ do: 'check', env, config }, this.#seconds));
  }

  start(recipe: Recipe, owner: string) {
    return this.#inProcess(async (process) => {
      const { instance, answer } = await this.#init(process, recipe);
      const episode = begun(answer);
      this.#keep(process, keyOf(owner, episode), instance);
      return { episode, answer };
    });
  }

  step(recipe: Recipe, owner: string, before: Episode, action: string) {
    return this.#inProcess(async (process) => {
      const key = keyOf(owner, before);
      const known = liveIn(process).get(key);
      liveIn(process).delete(key);
      const instance = known ?? (await this.#revive(process, recipe, before));
      const answer = await this.#ask(process, recipe, instance, action);
      const episode = continued(before, action, answer);
      if (episode.done) await process.request({ do: 'close', instance }, this.#seconds);
      else this.#keep(process, keyOf(owner, episode), instance);
      return { episode, answer };
    });
  }

  async #init(process: PythonProcess, recipe: Recipe): Promise<{ readonly instance: number; readonly answer: Answer }> {
    const instance = (made += 1);
    const answer = answerOf(await process.request({ do: 'init', instance, ...recipe }, this.#seconds));
    return { instance, answer };
  }

  async #ask(process: PythonProcess, { pickled }: Recipe, instance: number, action: string): Promise<Answer> {
    try {
      return answerOf(await process.request({ do: 'step', instance, action, pickled }, this.#seconds));
    } catch (error) {
      // It may have done half of the step.
      if (!process.ended) process.request({ do: 'close', instance }, this.#seconds).catch(() => undefined);
      throw error;
    }
  }

  async #revive(process: PythonProcess, recipe: Recipe, episode: Episode): Promise<number> {
    if (episode.pickle !== undefined) {
      const instance = (made += 1);
      await process.request({ do: 'load', instance, pickle: episode.pickle }, this.#seconds);
      return instance;
    }
    const { instance, answer } = await this.#init(process, recipe);
    checkReplay(recipe.env, episode, 0, answer);
    for (const [i, action] of episode.actions.entries())
      checkReplay(recipe.env, episode, i + 1, await this.#ask(process, recipe, instance, action));
    return instance;
  }

  #keep(process: PythonProcess, key: string, instance: number): void {
    const known = liveIn(process);
    const [oldest] = known;
    if (known.size >= MOST_LIVE && oldest !== undefined) {
      known.delete(oldest[0]);
      process.request({ do: 'close', instance: oldest[1] }, this.#seconds).catch(() => undefined);
    }
    known.set(key, instance);
  }

  /** Calls `work` again with a new process if its process ended. */
  async #inProcess<T>(work: (process: PythonProcess) => Promise<T>): Promise<T> {
    let [lost, disturbed] = [0, 0];
    for (;;) {
      try {
        return await work(processOf(this.#interpreter));
      } catch (error) {
        if (!(error instanceof PythonEnded)) throw error;
        if (error.blame) lost += 1;
        else disturbed += 1;
        if (lost >= MOST_LOST || disturbed >= MOST_DISTURBED)
          throw new PythonFailed(`${error.message} (${lost + disturbed} times in the same call)`);
      }
    }
  }
}
