export const packageRoot: string;
export function cacheDirectory(env?: NodeJS.ProcessEnv): string;
export function dependencyDirectory(name: string, from?: string): string | undefined;
