export const LAUNCHER_VARIABLE: string;
export function launchersOf(pid?: number, env?: NodeJS.ProcessEnv): number[];
export function whenLauncherEnds(end: () => void, env?: NodeJS.ProcessEnv): () => void;
