/** Waits for work that cannot be stopped, for as long as somebody waits for the activity. */

/** Returns the result of `work`, or throws the signal's reason as soon as it is aborted. Later results are ignored. */
export async function orAborted<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([work(), promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
