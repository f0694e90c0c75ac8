/** The environment that TensorFlow must find before it is loaded; setting it twice changes nothing. */

/**
 * Forces oneDNN (the same bits depend on it) and silences TensorFlow's log. The sampler's graph is a chain of ops: more
 * threads to run several of them at once only hand it to and fro. A worker thread has its own copy of the
 * environment that native code never sees: start the thread with `env: SHARE_ENV`, or call this in the main thread.
 */
export function prepareTensorflowEnvironment(): void {
  process.env['TF_ENABLE_ONEDNN_OPTS'] = '1';
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '3';
  process.env['TF_NUM_INTEROP_THREADS'] ??= '1';
}
