/** Waits for work that cannot be stopped, for as long as somebody waits for the activity. */

/** What `work` comes to, or the signal's reason as soon as it is aborted: what `work` comes to after that is nobody's. */
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
