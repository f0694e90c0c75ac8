/**
 * Hunts work that gets no reward because the grader was killed from outside, and code that is masked because it kills
 * its grader, with real sandboxes and real signals. Attacks by the policy's code itself are in hostile.test.ts.
 */

import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import type { SandboxProvider } from '../../../sandboxes/sandbox.ts';
import * as one from './one-task.ts';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { eventually, openBench } from '../../sandboxes/harness.ts';

const { provider } = await openBench();
const taskId = 'swe-mini-held-out-5';
const problem = makeProblem(taskId);
const source = problem.modules.find(({ path }) => path === problem.path)?.source ?? '';
let runs = 0;

/** A diff with the right fix of the module, and `text` after it. */
function fixWith(text: string): string {
  const before = source.split('\n').slice(0, -1);
  const after = `${source.replace(problem.fix.old, () => problem.fix.new)}${text}`.split('\n');
  const head = [
    `diff --git a/${problem.path} b/${problem.path}`,
    `--- a/${problem.path}`,
    `+++ b/${problem.path}`,
    `@@ -1,${before.length} +1,${after.length} @@`,
  ];
  return [...head, ...before.map((line) => `-${line}`), ...after.map((line) => `+${line}`), ''].join('\n');
}

async function grade(diff: string, by: SandboxProvider = provider): Promise<Verdict> {
  runs += 1;
  return one.grade(taskId, Buffer.from(diff), by, `killed-${runs}`);
}

/** The process on the host that runs a grader over a diff with `mark` in it. */
function graderOf(mark: string): number | undefined {
  for (const pid of readdirSync('/proc')) {
    try {
      if (!/^\d+$/u.test(pid) || !readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('python3\0')) continue;
      if (readFileSync(`/proc/${pid}/root/tmp/candidate.diff`, 'utf8').includes(mark)) return Number(pid);
    } catch {
      // It has ended, or belongs to another user.
    }
  }
  return undefined;
}

/**
 * Sandboxes in which a signal ends `program` at every call. To the grader it looks like a host that is out of memory.
 */
function killing(program: string, signal: string): SandboxProvider {
  const files = [{ path: `/tmp/bin/${program}`, content: `#!/bin/sh\nkill -${signal} $$\n`, mode: 0o755 }];
  return {
    name: 'killing',
    create: (spec) =>
      provider.create({ ...spec, env: { PATH: '/tmp/bin:/usr/bin:/bin' }, files: [...spec.files, ...files] }),
    connect: (id) => provider.connect(id),
    destroy: (id) => provider.destroy(id),
    list: () => provider.list(),
  };
}

describe('a grader that is killed from outside', () => {
  it('grades again: the right fix earns 1', async () => {
    const mark = `mark = "${process.pid}-once"`;
    const verdict = grade(fixWith(`\n${mark}\nimport time\ntime.sleep(1)\n`));
    process.kill(await eventually('the grader runs', () => graderOf(mark)), 'SIGKILL');
    expect(await verdict).toMatchObject({ code: 'graded', reward: 1 });
  });

  // Bash prints that a program was killed, which is not the grader's output; for a broken pipe it prints nothing.
  it.each([
    ['python3', 'KILL'],
    ['git', 'KILL'],
    ['git', 'PIPE'],
  ])('every time, whatever it grades, has failed: %s by SIG%s', async (program, signal) => {
    expect(await grade(fixWith(''), killing(program, signal))).toMatchObject({ code: 'grader-failed' });
  });
});

it.each([
  ['itself', 'import os\nos.kill(os.getpid(), 9)'],
  ['itself, by another signal', 'import os, signal\nos.kill(os.getpid(), signal.SIGTERM)'],
  ['itself, as if a shell could not start it', 'import os\nos._exit(126)'],
  ['itself by memory, where that is counted', 'x = []\nwhile True: x.append(bytearray(1 << 20))'],
])('code that ends its grader earns 0 and is not masked: %s', async (_, text) => {
  expect(await grade(fixWith(`\n${text}\n`))).toMatchObject({ code: 'graded', reward: 0 });
});
