/** Calls of `AdapterTrainer` as messages between threads. */

import type { TinkerPass } from '../../protocol/tinker.ts';
import type { AdapterTrainer } from './definition.ts';

type ArgumentsOf<M extends keyof AdapterTrainer> = M extends 'pass'
  ? readonly [id: string, pass: TinkerPass]
  : Parameters<AdapterTrainer[M]>;

/** A call of `AdapterTrainer` as data. Signals do not cross a thread: they travel beside the call. */
export type AdapterCall = {
  readonly [M in keyof AdapterTrainer]: { readonly method: M; readonly args: ArgumentsOf<M> };
}[keyof AdapterTrainer];

export type AdapterAnswer = Awaited<ReturnType<AdapterTrainer[keyof AdapterTrainer]>>;

/** Runs a call. Errors: those of the method; the reason of `signal`, which stops a pass. */
export function callAdapters(
  adapters: AdapterTrainer,
  { method, args }: AdapterCall,
  signal?: AbortSignal,
): Promise<AdapterAnswer> {
  if (method === 'pass') return adapters.pass(...args, signal);
  // The type of a call says that its arguments are its method's.
  return (adapters[method] as (...given: readonly unknown[]) => Promise<AdapterAnswer>).call(adapters, ...args);
}

/** The same calls, each given to `send`. */
export const adapterTrainer = (
  send: (call: AdapterCall, signal?: AbortSignal) => Promise<unknown>,
): AdapterTrainer => ({
  create: (...args) => send({ method: 'create', args }) as Promise<void>,
  load: (...args) => send({ method: 'load', args }) as Promise<void>,
  pass: (id, pass, signal) => send({ method: 'pass', args: [id, pass] }, signal) as ReturnType<AdapterTrainer['pass']>,
  optimStep: (...args) => send({ method: 'optimStep', args }) as ReturnType<AdapterTrainer['optimStep']>,
  save: (...args) => send({ method: 'save', args }) as ReturnType<AdapterTrainer['save']>,
  drop: (...args) => send({ method: 'drop', args }) as Promise<void>,
});
