/** The context that a task's functions receive. */

import type { Sandbox, SandboxProvider } from '../sandboxes/sandbox.ts';
import { MAIN, type SandboxRequest, type TaskContext } from '../tasks/environment.ts';

type Named = Pick<TaskContext, 'key' | 'id' | 'execution' | 'signal'>;

/** Over the agent's own sandbox. */
export function contextOver(sandbox: Sandbox, provider: SandboxProvider, named: Named): TaskContext {
  return {
    ...named,
    provider,
    async sandbox(name = MAIN) {
      if (name === MAIN) return await Promise.resolve(sandbox);
      throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
    },
  };
}

/** Over fresh sandboxes as the task describes them. Each is made when it is first used. */
export function freshContext(
  requests: Readonly<Record<string, SandboxRequest>> | undefined,
  provider: SandboxProvider,
  ttlSeconds: number,
  named: Named,
): TaskContext {
  const made = new Map<string, Promise<Sandbox>>();
  return {
    ...named,
    provider,
    async sandbox(name = MAIN) {
      const request = requests?.[name];
      if (request === undefined) throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
      const id = name === MAIN ? named.id : `${named.id}-${name}`;
      const sandbox = made.get(name) ?? provider.create({ ...request, id, ttlSeconds });
      made.set(name, sandbox);
      return sandbox;
    },
  };
}
