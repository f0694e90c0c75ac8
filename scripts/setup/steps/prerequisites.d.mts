export interface Prerequisite {
  readonly what: string;
  readonly remedy: string;
  readonly found: string | undefined;
}
export function prerequisites(env?: NodeJS.ProcessEnv): Prerequisite[];
export function compiler(env?: NodeJS.ProcessEnv): string | undefined;
