/**
 * `node scripts/code-search-arms.ts [--seeds 3] [--steps 8] [--tasks 200] [--out FILE]`: what `code_search` is worth.
 * One starter is made from records, then trained with the tool and without it, by seed, in runs of the same settings; a
 * run that is there already is continued. Writes each run's pass rates before and after, in all and by family, as JSON.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const EXAMPLE = join(ROOT, 'examples', 'call-chain');
const ARMS = ['with', 'without'] as const;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '8' },
    tasks: { type: 'string', default: '200' },
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
}

interface Evaluated {
  readonly passRate: number;
}

/** What a run's folder says. */
interface Summary {
  readonly evaluation: { readonly before?: Evaluated; readonly after?: Evaluated; readonly all: readonly Evaluated[] };
}

const results = [];
for (let seed = 1; seed <= Number(values.seeds); seed += 1)
  for (const arm of ARMS) {
    const name = `call-chain-${arm}-seed-${seed}`;
    const set = [
      `seed=${seed}`,
      `steps=${values.steps}`,
      `evaluation.tasks=${values.tasks}`,
      `task.options.tools=${arm}`,
    ];
    const begun = performance.now();
    longhaul('train', join(EXAMPLE, 'call-chain.yaml'), '--run-id', name, ...set.flatMap((one) => ['--set', one]));
    const summary = JSON.parse(readFileSync(join(ROOT, 'runs', name, 'summary.json'), 'utf8')) as Summary;
    const { all } = summary.evaluation;
    results.push({ arm, seed, minutes: (performance.now() - begun) / 60_000, before: all[0], after: all.at(-1) });
  }
const text = `${JSON.stringify({ command: 'node scripts/code-search-arms.ts', ...values, results }, undefined, 2)}\n`;
if (values.out === undefined) process.stdout.write(text);
else writeFileSync(values.out, text);
