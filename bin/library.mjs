/**
 * What `import … from 'longhaul'` loads: on a Node that is too old it says so, before anything is loaded that this Node
 * cannot even parse. A test holds its names to those of the library itself.
 */

import { isNewEnough, OLDEST_NODE } from '../scripts/setup/pinned-node.mjs';

if (!isNewEnough(process.versions.node)) {
  throw new Error(
    `longhaul needs Node.js ${OLDEST_NODE.join('.')} or later; this is ${process.versions.node}. ` +
      'Run your program with a newer one. (The command line, npx longhaul, brings its own.)',
  );
}

export const {
  defineAdvantage,
  defineLoss,
  defineTask,
  defineTool,
  EvalHandle,
  Longhaul,
  RunHandle,
  StepsMissed,
  ToolArgumentError,
  Unreachable,
  WrongStack,
} = await import('../dist/client/index.js');
