/** Calls of `AdapterTrainer` as messages between threads. */

import type { AdapterTrainer } from './definition.ts';

/** A call of `AdapterTrainer` as data. */
export type AdapterCall = {
  readonly [M in keyof AdapterTrainer]: { readonly method: M; readonly args: Parameters<AdapterTrainer[M]> };
}[keyof AdapterTrainer];

export type AdapterAnswer = Awaited<ReturnType<AdapterTrainer[keyof AdapterTrainer]>>;

/** Runs a call. Errors: those of the method. */
export function callAdapters(adapters: AdapterTrainer, { method, args }: AdapterCall): Promise<AdapterAnswer> {
  // The type of a call says that its arguments are its method's.
  return (adapters[method] as (...given: readonly unknown[]) => Promise<AdapterAnswer>).call(adapters, ...args);
}

/** The same calls, each given to `send`. */
export const adapterTrainer = (send: (call: AdapterCall) => Promise<unknown>): AdapterTrainer => ({
  create: (...args) => send({ method: 'create', args }) as Promise<void>,
  load: (...args) => send({ method: 'load', args }) as Promise<void>,
  pass: (...args) => send({ method: 'pass', args }) as ReturnType<AdapterTrainer['pass']>,
  optimStep: (...args) => send({ method: 'optimStep', args }) as ReturnType<AdapterTrainer['optimStep']>,
  save: (...args) => send({ method: 'save', args }) as ReturnType<AdapterTrainer['save']>,
  drop: (...args) => send({ method: 'drop', args }) as Promise<void>,
});
