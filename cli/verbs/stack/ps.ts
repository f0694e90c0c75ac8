/** `longhaul ps`: the current state of the stack's processes. */

import { withServerAsked } from '../../../stack/processes/ask-server.ts';
import { listProcesses } from '../../../stack/processes/list-processes.ts';
import { stackHome } from '../../../connection/stack-paths.ts';
import { reportDisks } from '../../connect/troubles.ts';
import { knownWorkers, workerLines } from '../../connect/known-workers.ts';
import { enginesWaitedFor, waitingLine } from '../../connect/waiting-engines.ts';
import { table } from '../../terminal-text.ts';
import type { Verb } from '../../verb.ts';

export const ps: Verb = {
  define(command, run) {
    command.action(() =>
      run(async (context) => {
        const { env, cwd, say } = context;
        const disks = await reportDisks(context);
        const stack = await withServerAsked(listProcesses(stackHome(env, cwd)));
        if (stack.status === 'down') say(`the stack in ${stack.home} is down; start it: npx longhaul up --detach`);
        else {
          const rows = stack.processes.map((one) => [
            one.name,
            String(one.pid ?? '-'),
            one.state,
            String(one.restarts),
            one.since,
            one.note ?? '',
          ]);
          for (const line of table([['NAME', 'PID', 'STATE', 'RESTARTS', 'SINCE', ''], ...rows])) say(line);
          for (const { problem } of [...stack.processes, stack]) if (problem !== undefined) say(problem);
          say(
            `stack ${stack.status} · Temporal ${stack.address} · namespace ` +
              `${stack.namespace}${stack.ui ? ` · UI ${stack.ui}` : ''}`,
          );
          const settings = Object.entries(stack.settings ?? {}).map(([name, value]) => `${name}=${value}`);
          if (settings.length > 0) say(`runs with ${settings.join(' ')}`);
          if (stack.status === 'unsupervised')
            say(
              'no supervisor runs: nothing restarts a dead process, and the UI is not reachable. To start one: ' +
                'npx longhaul up --detach',
            );
        }
        const workers = await knownWorkers(context);
        for (const line of workerLines(workers)) say(line);
        const waiting = stack.status === 'down' ? [] : await enginesWaitedFor(context, workers);
        for (const one of waiting) say(waitingLine(one));
        const isDown = stack.processes.some(({ state }) => state !== 'ready');
        return { document: { ...stack, disks, workers, waiting }, exitCode: disks.length > 0 && isDown ? 3 : 0 };
      }),
    );
  },
};
