/**
 * Handlers of several signals that receive them in the order in which they were sent, also signals from before the
 * first workflow task. One `setHandler` call per signal would deliver all signals of the first name, then all of the
 * second.
 */

import { setDefaultSignalHandler, setHandler, type SignalDefinition } from '@temporalio/workflow';

interface SignalHandler {
  readonly name: string;
  readonly handle: (args: unknown[]) => void;
  readonly install: () => void;
}

export function on<Args extends unknown[]>(
  signal: SignalDefinition<Args>,
  handle: (...args: Args) => void,
): SignalHandler {
  return { name: signal.name, handle: (args) => handle(...(args as Args)), install: () => setHandler(signal, handle) };
}

/** Call this once, with all signals of the workflow. */
export function setOrderedSignalHandlers(...handlers: readonly SignalHandler[]): void {
  const byName = new Map(handlers.map((one) => [one.name, one]));
  setDefaultSignalHandler((name, ...args) => byName.get(name)?.handle(args));
  for (const { install } of handlers) install();
}
