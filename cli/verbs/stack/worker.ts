/** `longhaul worker --role ROLE`: one worker process in the foreground, for machines that join a cluster. */

import { UserInputError } from '../../../client/errors.ts';
import { runRole } from '../../../workers/main.ts';
import { ROLES } from '../../../workers/settings.ts';
import type { Verb } from '../../verb.ts';

export const worker: Verb = {
  define(command, run) {
    command.requiredOption('--role <role>', ROLES.join(', ')).action(({ role }: { role: string }) =>
      run(async ({ note }) => {
        if (!ROLES.some((one) => one === role))
          throw new UserInputError('--role', role, `give one of ${ROLES.join(', ')}`);
        note(`${role} runs until SIGTERM or Ctrl-C`);
        await runRole(role);
        return { document: { role, ended: true } };
      }),
    );
  },
};
