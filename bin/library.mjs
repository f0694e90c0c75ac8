/**
 * What `import … from 'longhaul'` loads. On a Node that is too old it throws an error before it loads anything that
 * this Node cannot parse. A test compares its names with those of the library.
 */

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isNewEnough, OLDEST_NODE } from '../scripts/setup/pinned-node.mjs';

if (!isNewEnough(process.versions.node)) {
  throw new Error(
    `longhaul needs Node.js ${OLDEST_NODE.join('.')} or later; this is ${process.versions.node}. ` +
      'Run your program with a newer one. (The command line, npx longhaul, brings its own.)',
  );
}

const library = new URL('../dist/client/index.js', import.meta.url);
if (!existsSync(library)) {
  const error = new Error(
    `longhaul is not built: run npm run build in ${fileURLToPath(new URL('..', import.meta.url))}`,
  );
  // One line: no frame of a user's program is at fault.
  error.stack = error.message;
  throw error;
}

export const {
  BadRecord,
  defineAdvantage,
  defineAgent,
  defineBackend,
  defineEnvironment,
  defineLoss,
  defineTool,
  EvalHandle,
  ExternalRollout,
  fairAnswer,
  Longhaul,
  openRecords,
  readRecords,
  recordOptions,
  recordsDataset,
  ReportRefused,
  RunHandle,
  StepsMissed,
  ToolArgumentError,
  Unreachable,
  WrongStack,
  z,
} = await import(library.href);
