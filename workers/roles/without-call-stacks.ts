/**
 * Loaded first in every thread of the orchestrator: workflows run without a stack trace for each promise. Temporal's
 * SDK takes one for every new promise, only for the UI's "Call Stack"; that was a fifth to a quarter of the
 * orchestrator's time.
 */

import v8 from 'node:v8';
import { isMainThread } from 'node:worker_threads';

// Workflows run in threads of the SDK; the main thread's hooks stay as they are.
if (!isMainThread) v8.promiseHooks.createHook = () => () => undefined;
