export type EngineVariant = 'cpu' | 'cuda';
export const TENSORFLOW: string;
export function engineVariant(env?: NodeJS.ProcessEnv): EngineVariant;
export function makeEngineLibrary(
  cache: string,
  variant: EngineVariant,
  pins?: string,
): Promise<{ readonly path: string; readonly wheels: Readonly<Record<string, string>> }>;
