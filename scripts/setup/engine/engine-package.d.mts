export const ENGINE_PACKAGE: string;
export function findEngine(root?: string, cache?: string): string | undefined;
export function makeEnginePackage(root: string, cache: string, library: { readonly path: string }): Promise<string>;
export class NotSetUp extends Error {
  constructor(what: string);
}
