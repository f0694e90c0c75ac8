/** The places of a bundle's code in the user's own files, by the source map at the bundle's end. */

import { SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';

export interface Place {
  readonly file: string;
  readonly line: number;
}

const INLINE = /\n\/\/# sourceMappingURL=data:application\/json;base64,([A-Za-z0-9+/=]+)\s*$/;

/** By the bundle's file. A map is read when it is first asked for. */
const shared = globalThis as unknown as Record<symbol, unknown>;
const bundles = (shared[Symbol.for('longhaul bundles')] ??= new Map<string, () => SourceMap | undefined>()) as Map<
  string,
  () => SourceMap | undefined
>;

function mapOf(code: Uint8Array): SourceMap | undefined {
  const [, encoded] = INLINE.exec(Buffer.from(code).toString()) ?? [];
  if (encoded === undefined) return undefined;
  const map = JSON.parse(Buffer.from(encoded, 'base64').toString()) as SourceMapPayload;
  const root = map.sourceRoot || 'file:///';
  return new SourceMap({
    ...map,
    sourceRoot: '',
    sources: map.sources.map((source) => fileURLToPath(new URL(source, root))),
  });
}

/** From now on places in `file` are known as those of the files that the bundle was made of. */
export function knowBundle(file: string, code: Uint8Array): void {
  let map: SourceMap | undefined;
  let isRead = false;
  bundles.set(file, () => {
    if (!isRead) [map, isRead] = [mapOf(code), true];
    return map;
  });
}

/** `undefined` if `file` is no bundle. Lines and columns count from 1. */
export function sourceOf(file: string, line: number, column: number): Place | undefined {
  const found = bundles.get(file)?.()?.findOrigin(line, column);
  return found !== undefined && 'fileName' in found ? { file: found.fileName, line: found.lineNumber } : undefined;
}

/** A message may hold what looks like an address and is none. */
function pathOf(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    return url;
  }
}

/** The place at the end of a line of a stack. */
const PLACE = /((?:file:\/\/)?\/.*):(\d+):(\d+)(\)?)$/;

/** A stack with the places in bundles replaced by those in the user's files. */
export function withSources(stack: string): string {
  if (bundles.size === 0) return stack;
  const lines = stack.split('\n').map((text) =>
    text.replace(PLACE, (whole, where: string, line: string, column: string, end: string) => {
      const file = where.startsWith('file:') ? pathOf(where) : where;
      const place = sourceOf(file, Number(line), Number(column));
      return place === undefined ? whole : `${place.file}:${place.line}${end}`;
    }),
  );
  return lines.join('\n');
}
