/** Finds the mirror that this machine's own apt uses, from which a base image can be built. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface AptSource {
  readonly uri: string;
  readonly suite: string;
  readonly keyring?: string;
}

/** Entries of the deb822 format (`*.sources`). */
export function parseStanzas(text: string): AptSource[] {
  return text.split(/\n\s*\n/u).flatMap((stanza) => {
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}:\\s*(.+)$`, 'imu').exec(stanza)?.[1]?.trim();
    const [uri, suites, keyring] = [field('URIs')?.split(/\s+/u)[0], field('Suites'), field('Signed-By')];
    if (uri === undefined || suites === undefined || field('Types')?.includes('deb') !== true) return [];
    const key = keyring?.startsWith('/') === true ? { keyring } : {};
    return suites.split(/\s+/u).map((suite) => ({ uri, suite, ...key }));
  });
}

/** Entries of the one-line format (`*.list`). */
export function parseLines(text: string): AptSource[] {
  return [...text.matchAll(/^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)/gmu)].map(([, options, uri = '', suite = '']) => {
    const keyring = /signed-by=(\/\S+)/u.exec(options ?? '')?.[1];
    return { uri, suite, ...(keyring === undefined ? {} : { keyring }) };
  });
}

function readSources(folder: string): AptSource[] {
  const read = (path: string): AptSource[] => {
    const text = readFileSync(path, 'utf8').replaceAll(/^\s*#.*$\n?/gmu, '');
    return path.endsWith('.sources') ? parseStanzas(text) : parseLines(text);
  };
  const parts = readdirSync(join(folder, 'sources.list.d')).toSorted();
  const files = ['sources.list', ...parts.map((name) => join('sources.list.d', name))];
  return files
    .filter((name) => /\.(list|sources)$/u.test(name))
    .flatMap((name) => {
      try {
        return read(join(folder, name));
      } catch {
        return [];
      }
    });
}

/** The entry of this machine's own release, if it is Debian or derived from it. */
export function findAptSource(etc = '/etc'): AptSource | undefined {
  try {
    const release = /^VERSION_CODENAME=(\S+)/mu.exec(readFileSync(join(etc, 'os-release'), 'utf8'))?.[1];
    return readSources(join(etc, 'apt')).find(({ suite }) => suite === release);
  } catch {
    return undefined;
  }
}
