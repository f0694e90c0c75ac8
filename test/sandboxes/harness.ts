/** Real sandboxes for tests: a provider with a state directory of its own, and what it made is gone afterwards. */

import { mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll } from 'vitest';

import { type BubblewrapProvider, createBubblewrapProvider } from '../../sandboxes/bubblewrap/provider.ts';
import type { ExecCall, ExecResult, Sandbox, SandboxSpec } from '../../sandboxes/sandbox.ts';
import { buildSupervisor } from '../../sandboxes/supervisor/build.ts';

const cache = process.env['LONGHAUL_CACHE'] ?? join(homedir(), '.cache', 'longhaul');

export interface Bench {
  readonly provider: BubblewrapProvider;
  readonly stateDir: string;
  readonly supervisorPath: string;
}

/** A provider for one test file. It fails, and says what is missing, where bubblewrap or a C compiler is. */
export async function openBench(): Promise<Bench> {
  const supervisorPath = await buildSupervisor(join(cache, 'supervisor'));
  const stateDir = mkdtempSync(join(tmpdir(), 'longhaul-sandboxes-'));
  const provider = createBubblewrapProvider({ stateDir, supervisorPath });
  afterAll(async () => {
    await provider.sweep(() => false);
    rmSync(stateDir, { recursive: true, force: true });
  });
  return { provider, stateDir, supervisorPath };
}

export function specOf(id: string, changes: Partial<SandboxSpec> = {}): SandboxSpec {
  return {
    id,
    workdir: '/workspace',
    files: [],
    env: {},
    limits: { memoryMiB: 256, processes: 64, diskMiB: 64 },
    ttlSeconds: 120,
    ...changes,
  };
}

let calls = 0;

export const callOf = (command: string, changes: Partial<ExecCall> = {}): ExecCall => {
  calls += 1;
  return { callId: `call-${calls}`, command, timeoutMs: 20_000, outputLimit: 100_000, ...changes };
};

export const sh = async (sandbox: Sandbox, command: string, changes: Partial<ExecCall> = {}): Promise<ExecResult> =>
  await sandbox.exec(callOf(command, changes));

/** Asks until `look` answers with something. Fails the test after ten seconds. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (let tries = 0; tries < 500; tries += 1) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`never happened: ${what}`);
}
