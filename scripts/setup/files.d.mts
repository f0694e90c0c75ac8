export function hashFile(path: string): Promise<string>;
export function hashInputs(paths: readonly string[], base: string): string;
export function writeWhole(path: string, content: string | Uint8Array): void;
export function readJson(path: string): unknown;
export function makeDirectoryOnce<T extends object>(
  path: string,
  fill: (aside: string) => Promise<T>,
): Promise<T & { readonly files: Readonly<Record<string, number>> }>;
export function swapLink(target: string, link: string): boolean;
