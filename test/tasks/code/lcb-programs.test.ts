/** Programs that SkyRL-Gym's `lcb` accepts by its own way of running and comparing them, graded in real sandboxes. */

import { expect, it } from 'vitest';
import { gradeLcb } from '../../../tasks/code/lcb.ts';
import { openBench } from '../../sandboxes/harness.ts';

const { provider } = await openBench();
const bounds = { seconds: 6, memoryMiB: 512 };
const fenced = (code: string): string => `\`\`\`python\n${code}\n\`\`\``;

const NUMPY_NUMBER = `class number:
    __module__ = 'numpy'
    shape = ()
    def item(self): return 2`;

it.each<[string, string, string, number]>([
  ['a Decimal', 'from decimal import Decimal\ndef g(x): return Decimal("0.5")', '0.5', 1],
  ['a Decimal that is not the double', 'from decimal import Decimal\ndef g(x): return Decimal("0.1")', '0.1', 0],
  ['a Fraction in a list', 'from fractions import Fraction\ndef g(x): return [Fraction(4, 2)]', '[2]', 1],
  ['a complex number without an imaginary part', 'def g(x): return complex(7, 0)', '7', 1],
  ['numbers of numpy in a list', `${NUMPY_NUMBER}\ndef g(x): return [number()]`, '[2]', 1],
])('compares %s by its value', { timeout: 120_000 }, async (name, code, output, reward) => {
  const tests = { function: 'g', inputs: ['1'], outputs: [output] };
  const verdict = await gradeLcb(fenced(code), tests, bounds, { provider, id: `lcb-${name.replaceAll(' ', '-')}` });
  expect(verdict).toMatchObject({ code: 'graded', reward });
});

it("runs a program whose functions take its names for those of a function's body", { timeout: 120_000 }, async () => {
  const code = 'total = 0\ndef add():\n    nonlocal total\n    total += int(input())\nadd()\nadd()\nprint(total)';
  const tests = { inputs: ['3\n4\n'], outputs: ['7'] };
  const verdict = await gradeLcb(fenced(code), tests, bounds, { provider, id: 'lcb-programs-nonlocal' });
  expect(verdict).toMatchObject({ code: 'graded', reward: 1 });
});
