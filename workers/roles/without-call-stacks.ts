/**
 * Loaded first in every thread of the orchestrator: workflows run without a stack trace for each promise. Temporal's SDK
 * takes one whenever a promise is made, for the UI's "Call Stack" alone; that was a fifth to a quarter of the orchestrator's time.
 */

import v8 from 'node:v8';
import { isMainThread } from 'node:worker_threads';

// Workflows run in threads of the SDK; the main thread's hooks are left alone.
if (!isMainThread) v8.promiseHooks.createHook = () => () => undefined;
