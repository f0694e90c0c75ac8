/** The connection settings of Temporal, from its own environment variables and profiles. */

import { type ClientConnectConfig, loadClientConnectConfig } from '@temporalio/envconfig';
import { UserInputError } from '../protocol/user-input-error.ts';

/** Errors: `UserInputError` for a profile that does not exist, and for a file or a variable that cannot be read. */
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
    throw new UserInputError(field, value, `give a value that Temporal's own clients accept (${why})`, {
      cause: error,
    });
  }
}
