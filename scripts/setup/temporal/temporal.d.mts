export const TEMPORAL_CLI: string;
export function findTemporal(
  cache: string,
  env?: NodeJS.ProcessEnv,
): { readonly path: string; readonly from: 'PATH' | 'cache' } | undefined;
export function makeTemporal(cache: string, env?: NodeJS.ProcessEnv): Promise<string>;
