/** Hunts printed commands that a shell would read differently. */

import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { shellWord } from '../../cli/terminal-text.ts';

it.each([
  'plain/file.yaml',
  "my evals/it's.yaml",
  'policies=[{ name: a, policy: "b" }]',
  '$HOME `id` !x',
  '',
  'naïve ✓',
  'a\nb',
])('%j is one word of a shell', (text) => {
  expect(execFileSync('bash', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' })).toBe(text);
});

it('leaves alone what needs no quotes', () => {
  expect(shellWord('latest:run@3/x-1.yaml')).toBe('latest:run@3/x-1.yaml');
});
