/**
 * `node test/mutations/run-mutations.ts [--unchanged] [NAME...]`: takes the handling of each fault out, one at a time, in
 * a copy of the checkout, and demands that the tests that docs/reliability.md names for it fail. NAME: a part of a
 * mutation's name, fault or test file. `--unchanged`: instead runs the same tests on the code as it is, and demands that they pass.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { MUTATIONS } from './entries/index.ts';
import { judgeMutated, judgeUnchanged } from './judge.ts';
import { mutated, type Mutation } from './mutation.ts';
import { runTests } from './run-tests.ts';
import { makeScratchCopy, type ScratchCopy } from './scratch-copy.ts';

const say = (line: string) => void process.stdout.write(`${line}\n`);

async function isKilled(mutation: Mutation, copy: ScratchCopy): Promise<boolean> {
  const path = join(copy.root, mutation.file);
  const whole = readFileSync(path, 'utf8');
  const begun = Date.now();
  try {
    writeFileSync(path, mutated(whole, mutation));
    const results = await runTests(mutation.tests, copy);
    const judged = mutation.tests.map((killer) => judgeMutated(killer, results));
    const ok = judged.every((one) => one.ok);
    say(`${ok ? 'killed  ' : 'NOT KILLED'} ${mutation.name} (${Math.round((Date.now() - begun) / 1000)} s)`);
    for (const { line } of judged) say(`    ${line}`);
    return ok;
  } finally {
    writeFileSync(path, whole);
  }
}

async function passUnchanged(mutations: readonly Mutation[], copy: ScratchCopy): Promise<boolean> {
  const byFile = Map.groupBy(
    mutations.flatMap(({ tests }) => tests),
    ({ file }) => file,
  );
  let ok = true;
  for (const [file, killers] of byFile) {
    const results = await runTests(killers, copy);
    const judged = killers.map((killer) => judgeUnchanged(killer, results));
    for (const { line } of judged.filter((one) => !one.ok)) say(line);
    say(`${judged.every((one) => one.ok) ? 'passes' : 'FAILS '} ${file}`);
    ok &&= judged.every((one) => one.ok);
  }
  return ok;
}

const { values, positionals } = parseArgs({ options: { unchanged: { type: 'boolean' } }, allowPositionals: true });
const texts = ({ name, fault, tests }: Mutation) => [name, fault, ...tests.map(({ file }) => file)];
const chosen = MUTATIONS.filter(
  (one) => positionals.length === 0 || positionals.some((part) => texts(one).some((text) => text.includes(part))),
);
const copy = makeScratchCopy();
process.once('exit', () => copy.remove());
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

if (values.unchanged) process.exitCode = (await passUnchanged(chosen, copy)) ? 0 : 1;
else {
  let killed = 0;
  for (const mutation of chosen) if (await isKilled(mutation, copy)) killed += 1;
  say(`${chosen.length} mutations, ${killed} killed`);
  process.exitCode = killed === chosen.length ? 0 : 1;
}
