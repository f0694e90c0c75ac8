/** `longhaul down`: drains and stops the stack of this folder; running work continues after the next `up`. */

import { UserInputError } from '../../../client/errors.ts';
import { stackHome } from '../../../connection/stack-paths.ts';
import { stopStack } from '../../../stack/stop-stack.ts';
import type { Verb } from '../../verb.ts';

export const down: Verb = {
  define(command, run) {
    command
      .option('--timeout <seconds>', 'kill processes that have not drained by then', '60')
      .action((options: { timeout: string }) =>
        run(async ({ env, cwd, say }) => {
          const deadlineMs = secondsOf(options.timeout) * 1000;
          const stopped = await stopStack({ home: stackHome(env, cwd), deadlineMs });
          say(stopped.wasUp ? `stopped ${stopped.stopped.join(', ')}` : 'the stack was not up');
          return { document: stopped };
        }),
      );
  },
};

function secondsOf(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== '' && Number.isFinite(seconds) && seconds >= 0) return seconds;
  throw new UserInputError('--timeout', text, 'give a number of seconds, 0 or more');
}
