/** `longhaul worker --role ROLE`: one worker process in the foreground, for machines that join a cluster. */

import { loadOwnModules, MODULES_VARIABLE, ownModules } from '../../../workers/own-modules.ts';
import { UserInputError } from '../../../client/errors.ts';
import { runRole } from '../../../workers/main.ts';
import { ROLES } from '../../../workers/settings.ts';
import type { Verb } from '../../verb.ts';

export const worker: Verb = {
  define(command, run) {
    command
      .requiredOption('--role <role>', ROLES.join(', '))
      .option(
        '--modules <paths>',
        `paths of your modules with tasks and tools, separated as in PATH; in addition to those of $${MODULES_VARIABLE}`,
      )
      .action(({ role, modules }: { role: string; modules?: string }) =>
        run(async ({ note, cwd }) => {
          if (!ROLES.some((one) => one === role))
            throw new UserInputError('--role', role, `give one of ${ROLES.join(', ')}`);
          if (modules !== undefined)
            await loadOwnModules(ownModules({ [MODULES_VARIABLE]: modules }, cwd), '--modules');
          note(`${role} runs until SIGTERM or Ctrl-C`);
          await runRole(role);
          return { document: { role, ended: true } };
        }),
      );
  },
};
