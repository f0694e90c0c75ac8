export interface MissingPrerequisite {
  readonly what: string;
  readonly remedy: string;
}
export class MissingPrerequisites extends Error {
  constructor(missing: readonly MissingPrerequisite[]);
  readonly missing: readonly MissingPrerequisite[];
}
export function which(name: string, env?: NodeJS.ProcessEnv): string | undefined;
export function ask(command: string, args: readonly string[], timeoutMs?: number): string | undefined;
export function run(command: string, args: readonly string[], options?: object): Promise<string>;
