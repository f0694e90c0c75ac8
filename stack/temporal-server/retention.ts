/** How long the embedded server keeps histories of closed workflows, which bounds the size of its database. */

import { Connection, type ConnectionOptions } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { UserInputError } from '../../protocol/user-input-error.ts';

export const RETENTION_VARIABLE = 'LONGHAUL_RETENTION';

/** The server's own default. */
export const DEFAULT_RETENTION_HOURS = 24;
/** The server accepts nothing shorter. */
const LEAST_HOURS = 1;
const MOST_HOURS = 24 * 36_500;

/** In hours. Errors: `UserInputError`. */
export function readRetention(env: NodeJS.ProcessEnv = process.env): number {
  const text = (env[RETENTION_VARIABLE] ?? '').trim();
  if (text === '') return DEFAULT_RETENTION_HOURS;
  const [, count, unit] = /^(\d{1,6})(h|d)$/u.exec(text) ?? [];
  const hours = Number(count) * (unit === 'd' ? 24 : 1);
  if (hours >= LEAST_HOURS && hours <= MOST_HOURS) return hours;
  throw new UserInputError(RETENTION_VARIABLE, text, 'give hours or days, at least 1h, such as 36h or 3d');
}

/** Sets the retention if it differs. Workflows that closed before keep theirs. Errors: the connection's own. */
export async function setRetention(
  options: ConnectionOptions,
  namespace: string,
  hours: number,
  timeoutMs: number,
): Promise<void> {
  const connection = await Connection.connect({ ...options, connectTimeout: timeoutMs });
  try {
    await connection.withDeadline(Date.now() + timeoutMs, async () => {
      const { config } = await connection.workflowService.describeNamespace({ namespace });
      if (Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) === hours * 3600) return;
      await connection.workflowService.updateNamespace({
        namespace,
        config: { workflowExecutionRetentionTtl: msToTs(hours * 3_600_000) },
      });
    });
  } finally {
    await connection.close();
  }
}
