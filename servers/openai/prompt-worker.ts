/** The thread of `PromptThread`: prepares one request at a time with its own tokenizer. */

import { parentPort, workerData } from 'node:worker_threads';
import { errorData } from '../../trainer/embedded/messages.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { prepareRequest } from './prepare-request.ts';
import type { FromPromptThread, PromptSource, ToPromptThread } from './prompt-thread.ts';

const { dir, name, contextTokens } = workerData as PromptSource;
const model = { name, contextTokens, tokenizer: await loadTokenizer(dir) };

function prepare({ kind, body, earlier }: ToPromptThread): FromPromptThread {
  try {
    return { prepared: prepareRequest(kind, body, model, earlier) };
  } catch (error) {
    return { error: errorData(error) };
  }
}

parentPort?.on('message', (message: ToPromptThread) => parentPort?.postMessage(prepare(message)));
