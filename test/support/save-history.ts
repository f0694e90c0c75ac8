/** A workflow's history as a file of the golden ones, without names of the machine that recorded it. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serverProgram } from '../../stack/stack-plan.ts';

const out = fileURLToPath(new URL('../histories', import.meta.url));

/** Names of this machine and its paths are nobody's business, and replay does not read them. */
function withoutMachine(key: string, value: unknown): unknown {
  if (key === 'identity' || key === 'stickyAttributes') return undefined;
  if (key === 'name' && typeof value === 'string' && /^\d+@/.test(value)) return 'sticky';
  return key === 'stackTrace' ? '' : value;
}

export function saveHistory(address: string, name: string, workflowId: string, runId = ''): void {
  const run = runId === '' ? [] : ['--run-id', runId];
  const shown = ['workflow', 'show', '--workflow-id', workflowId, ...run, '--address', address, '--output', 'json'];
  const text = execFileSync(serverProgram(process.env), shown, { encoding: 'utf8', maxBuffer: 1 << 26 });
  const history: unknown = JSON.parse(text, withoutMachine);
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, `${name}.json`), `${JSON.stringify({ workflowId, history })}\n`);
}
