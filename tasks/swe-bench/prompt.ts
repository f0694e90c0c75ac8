/** What the agent reads first: the issue, where the repository is, and how to go about it. */

import type { Message } from '../../protocol/message.ts';
import type { Instance } from './instance.ts';

/** R2E-Gym wraps its issues in `[ISSUE]`. */
const plain = (text: string): string => text.replaceAll(/^\s*\[ISSUE\]\s*|\s*\[\/ISSUE\]\s*$/gu, '').trim();

/** `hints`: whether the discussion of the issue is shown, which may name the solution. */
export function openingMessage(instance: Instance, workdir: string, hints: boolean): Message {
  const { problem, hints: hint } = instance;
  const content = [
    `The repository is checked out in ${workdir}. Solve this issue in it:`,
    `<issue>\n${plain(problem)}\n</issue>`,
    ...(hints && hint.trim() !== '' ? [`<discussion>\n${hint.trim()}\n</discussion>`] : []),
    'Change the files that are not tests, as little as the issue needs. The tests for the issue are written ' +
      'already; you do not see them, and you need not add or change any. The environment is complete: ' +
      'install nothing, there is no network.',
    [
      'A way that works:',
      '1. Look at the repository, and find the code that the issue is about.',
      '2. Write a script that shows the error, and run it.',
      '3. Change the code so that the issue is solved.',
      '4. Run the script again, then the existing tests of that code.',
      '5. Think of special cases that the issue implies, and make sure that they work too. Remove your script.',
    ].join('\n'),
    'When the issue is solved, call finish.',
  ].join('\n\n');
  return { role: 'user', content };
}
