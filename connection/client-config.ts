/** How Temporal is reached, by its own variables and profiles; what cannot be read in them is the user's to mend. */

import { type ClientConnectConfig, loadClientConnectConfig } from '@temporalio/envconfig';
import { UserInputError } from '../protocol/user-input-error.ts';

/** Errors: `UserInputError` for a profile that there is not, and for a file or a variable that cannot be read. */
export function temporalConfig(env: NodeJS.ProcessEnv = process.env): ClientConnectConfig {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  try {
    return loadClientConnectConfig({ overrideEnvVars });
  } catch (error) {
    const profile = env['TEMPORAL_PROFILE'] || undefined;
    const why = error instanceof Error ? error.message : String(error);
    const [field, value] =
      profile === undefined
        ? (['TEMPORAL_CONFIG_FILE', env['TEMPORAL_CONFIG_FILE'] ?? null] as const)
        : (['TEMPORAL_PROFILE', profile] as const);
    throw new UserInputError(field, value, `give what Temporal's own clients can read (${why})`, { cause: error });
  }
}
