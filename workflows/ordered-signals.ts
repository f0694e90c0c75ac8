/**
 * Handlers of several signals that hear them in the order in which they were sent, also those from before the first
 * workflow task: one `setHandler` after the other would hear all of the first name, then all of the second.
 */

import { setDefaultSignalHandler, setHandler, type SignalDefinition } from '@temporalio/workflow';

interface Heard {
  readonly name: string;
  readonly hear: (args: unknown[]) => void;
  readonly install: () => void;
}

export function on<Args extends unknown[]>(signal: SignalDefinition<Args>, handle: (...args: Args) => void): Heard {
  return { name: signal.name, hear: (args) => handle(...(args as Args)), install: () => setHandler(signal, handle) };
}

/** To be called once, with all signals of the workflow. */
export function setOrderedSignalHandlers(...heard: readonly Heard[]): void {
  const byName = new Map(heard.map((one) => [one.name, one]));
  setDefaultSignalHandler((name, ...args) => byName.get(name)?.hear(args));
  for (const { install } of heard) install();
}
