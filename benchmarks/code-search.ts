/**
 * `bench code-search`: the tool `code_search` against `search` (grep) on a generated repository, in one sandbox: time
 * of the index, of a question, and how many bytes the model reads until it has seen where a function is defined and
 * what calls it.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolRegistry } from '../agents/tools/registry.ts';
import { runToolCall } from '../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../sandboxes/sandbox.ts';
import { openProvider } from '../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../workers/settings.ts';

export interface CodeSearchBench {
  readonly files: number;
  readonly megabytes: number;
  /** The first call, which makes the index. */
  readonly indexSeconds: number;
  /** Median of a call after it. */
  readonly queryMs: number;
  /** Median of a call after one file has changed. */
  readonly changedMs: number;
  readonly grep: { readonly queryMs: number };
  /** Median bytes of the answers to: where is it defined, and what uses it? */
  readonly bytesRead: { readonly codeSearch: number; readonly grep: number };
}

const LIMITS = { memoryMiB: 1024, processes: 64, diskMiB: 512 };
const FUNCTIONS = 12;
const TIMEOUT_MS = 120_000;

/** Names that repeat in parts, as those of real code do. */
const VERBS = ['load', 'save', 'parse', 'merge', 'check', 'render', 'count', 'split'];
const NOUNS = ['order', 'price', 'user', 'page', 'cart', 'token', 'route', 'report'];
const nameOf = (file: number, index: number): string =>
  `${VERBS[(file + index) % VERBS.length]}_${NOUNS[(file * 3 + index) % NOUNS.length]}_` +
  `${(file * FUNCTIONS + index) % 997}`;

/** A module of some 100 lines, which calls functions of the module before it. */
function moduleText(file: number): string {
  const before = Math.max(0, file - 1);
  const functions = Array.from({ length: FUNCTIONS }, (_, index) => {
    const called = nameOf(before, (index * 5) % FUNCTIONS);
    return (
      `def ${nameOf(file, index)}(items, limit=${index}):\n    """Returns the ${NOUNS[index % NOUNS.length]} of ` +
      `the items."""\n    total = 0\n    for item in items:\n        total += item\n    return ${called}(items) ` +
      `+ total * limit\n`
    );
  });
  return `"""Module ${file}."""\n\nfrom package.module_${before} import *\n\n\n${functions.join('\n\n')}`;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

class Questions {
  readonly #sandbox: Sandbox;
  readonly #names = [...toolRegistry.keys()];
  #calls = 0;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  async ask(name: string, args: Readonly<Record<string, unknown>>): Promise<{ ms: number; bytes: number }> {
    this.#calls += 1;
    const begun = performance.now();
    const context = { callId: `question-${this.#calls}`, timeoutMs: TIMEOUT_MS };
    const { content } = await runToolCall({ name, arguments: args }, this.#names, this.#sandbox, context);
    return { ms: performance.now() - begun, bytes: Buffer.byteLength(content) };
  }
}

async function measured(sandbox: Sandbox, files: number, questions: number): Promise<CodeSearchBench> {
  const asked = new Questions(sandbox);
  const first = await asked.ask('code_search', { action: 'definitions', query: nameOf(0, 0) });
  const times = { code: [] as number[], grep: [] as number[], changed: [] as number[] };
  const bytes = { code: [] as number[], grep: [] as number[] };
  for (let i = 0; i < questions; i += 1) {
    const name = nameOf((i * 37) % files, i % FUNCTIONS);
    const byCode = [
      await asked.ask('code_search', { action: 'definitions', query: name }),
      await asked.ask('code_search', { action: 'references', query: name }),
    ];
    const byGrep = [await asked.ask('search', { query: `def ${name}(` }), await asked.ask('search', { query: name })];
    times.code.push(...byCode.map(({ ms }) => ms));
    times.grep.push(...byGrep.map(({ ms }) => ms));
    bytes.code.push(byCode.reduce((sum, one) => sum + one.bytes, 0));
    bytes.grep.push(byGrep.reduce((sum, one) => sum + one.bytes, 0));
    await sandbox.exec({
      callId: `change-${i}`,
      command: `printf '\\n\\ndef added_${i}():\\n    pass\\n' >> package/module_${(i * 41) % files}.py`,
      timeoutMs: TIMEOUT_MS,
      outputLimit: 1000,
    });
    times.changed.push((await asked.ask('code_search', { action: 'definitions', query: `added_${i}` })).ms);
  }
  return {
    files,
    megabytes: Array.from({ length: files }, (_, file) => moduleText(file).length).reduce((a, b) => a + b, 0) / 1e6,
    indexSeconds: first.ms / 1000,
    queryMs: median(times.code),
    changedMs: median(times.changed),
    grep: { queryMs: median(times.grep) },
    bytesRead: { codeSearch: median(bytes.code), grep: median(bytes.grep) },
  };
}

export async function benchCodeSearch({
  files,
  questions,
}: {
  readonly files: number;
  readonly questions: number;
}): Promise<CodeSearchBench> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-code-search-'));
  const provider = await openProvider('bubblewrap', join(folder, 'sandboxes'), readSandboxSettings(process.env));
  try {
    const sandbox = await provider.create({
      id: 'repository',
      workdir: '/work',
      files: Array.from({ length: files }, (_, file) => ({
        path: `package/module_${file}.py`,
        content: moduleText(file),
      })),
      env: {},
      limits: LIMITS,
      ttlSeconds: 3600,
    });
    return await measured(sandbox, files, questions);
  } finally {
    await provider.destroy('repository');
    await rm(folder, { recursive: true, force: true });
  }
}
