/** The environment variables that TensorFlow needs before it is loaded. */

/**
 * Enables oneDNN, which the same bits depend on, and silences TensorFlow's log. The sampler's graph is a chain of ops,
 * so more inter-op threads only add switches between threads. A worker thread has its own copy of the environment,
 * which native code does not see: start the thread with `env: SHARE_ENV`, or call this in the main thread. Calling it
 * twice is harmless.
 */
export function prepareTensorflowEnvironment(): void {
  process.env['TF_ENABLE_ONEDNN_OPTS'] = '1';
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '3';
  process.env['TF_NUM_INTEROP_THREADS'] ??= '1';
}
