/** `npm run setup`: everything that running Longhaul on this machine needs, made once and found again afterwards. */

import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setUp } from './setup/steps/set-up.mjs';

/** Runs the set-up and reports on stderr; a failure ends the process (3 when something must be installed first). */
export async function setUpOrExit() {
  const start = performance.now();
  try {
    const node = await setUp({ say: (line) => process.stderr.write(`${line}\n`) });
    process.stderr.write(`set-up  done in ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
    return node;
  } catch (error) {
    process.stderr.write(`${describe(error)}\n`);
    return process.exit(error.name === 'MissingPrerequisites' ? 3 : 1);
  }
}

function describe(error) {
  if (error.name !== 'MissingPrerequisites') return `set-up failed: ${error.message}`;
  const lines = error.missing.map((one) => `  ${one.what.padEnd(32)} ${one.remedy}`);
  return ['set-up needs what this machine lacks (on Debian and Ubuntu, after apt-get update):', ...lines].join('\n');
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await setUpOrExit();
