/**
 * `node scripts/code-search-arms.ts [--seeds 3] [--steps 4] [--tasks 80] [--out FILE]`: what `code_search` is worth.
 * One starter is made from records, then trained with the tool and without it, by seed, in runs of the same settings; a
 * run that is there already is continued. Writes each run's pass rates before and after, in all and by family, as JSON.
 */

import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const EXAMPLE = join(ROOT, 'examples', 'call-chain');
const ARMS = ['with', 'without'] as const;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '4' },
    tasks: { type: 'string', default: '80' },
    out: { type: 'string' },
  },
});

const run = (...args: readonly string[]): void => {
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
};
const longhaul = (...args: readonly string[]): void => run(join(ROOT, 'cli', 'main.ts'), ...args);

if (!existsSync(join(EXAMPLE, 'records', 'starter', 'model.safetensors'))) {
  run(join(EXAMPLE, 'write-records.ts'));
  longhaul('sft', join(EXAMPLE, 'starter.yaml'));
  longhaul('sft', join(EXAMPLE, 'starter-mixed.yaml'));
}

interface Evaluated {
  readonly passRate: number;
}

/** What a run's folder says. */
interface Summary {
  readonly evaluation: { readonly before?: Evaluated; readonly after?: Evaluated; readonly all: readonly Evaluated[] };
}

const results: unknown[] = [];
/** After each run: what is measured is not lost if a later one fails. */
function write(): void {
  const text = `${JSON.stringify({ command: 'node scripts/code-search-arms.ts', ...values, results }, undefined, 2)}\n`;
  if (values.out === undefined) process.stdout.write(text);
  else writeFileSync(values.out, text);
}

async function trained(arm: (typeof ARMS)[number], seed: number): Promise<void> {
  const name = `call-chain-${arm}-seed-${seed}`;
  const set = [
    `seed=${seed}`,
    `steps=${values.steps}`,
    `evaluation.tasks=${values.tasks}`,
    `task.options.tools=${arm}`,
  ];
  const begun = performance.now();
  const args = ['train', join(EXAMPLE, 'call-chain.yaml'), '--run-id', name, ...set.flatMap((one) => ['--set', one])];
  await promisify(execFile)(process.execPath, [join(ROOT, 'cli', 'main.ts'), ...args], { cwd: ROOT });
  const summary = JSON.parse(readFileSync(join(ROOT, 'runs', name, 'summary.json'), 'utf8')) as Summary;
  const { all } = summary.evaluation;
  results.push({ arm, seed, minutes: (performance.now() - begun) / 60_000, before: all[0], after: all.at(-1) });
  write();
}

longhaul('up', '--detach');
// All at the same time: what else the machine does delays both arms alike.
const seeds = Array.from({ length: Number(values.seeds) }, (_, i) => i + 1);
await Promise.all(seeds.flatMap((seed) => ARMS.map((arm) => trained(arm, seed))));
