export const packageRoot: string;
export function cacheDirectory(env?: NodeJS.ProcessEnv): string;
export function withCompileCache(env?: NodeJS.ProcessEnv): NodeJS.ProcessEnv;
export function dependencyDirectory(name: string, from?: string): string | undefined;
