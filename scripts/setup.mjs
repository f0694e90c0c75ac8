/** `npm run setup`: makes everything that Longhaul needs on this machine. Later calls find what was made. */

import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setUp } from './setup/steps/set-up.mjs';

/** Runs the set-up and reports on stderr. A failure ends the process: with exit code 3 if prerequisites are missing. */
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
  return ['set-up: this machine lacks (on Debian and Ubuntu, run apt-get update first):', ...lines].join('\n');
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await setUpOrExit();
