/**
 * Bundles a user's modules, with all that they import, into one text. The same files give the same text, so that its
 * digest names what runs. `longhaul` and Node's own modules stay imports.
 */

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Loader, Message, Plugin } from 'esbuild';
import { packageRoot } from '#setup/paths.mjs';
import type { ObjectRef } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';

export interface Bundle {
  /** SHA-256 of the bundle: its name in a store. */
  readonly digest: ObjectRef;
  readonly code: Uint8Array;
  /** The modules, absolute, in the order in which they load. */
  readonly paths: readonly string[];
}

/** Larger bundles hold data, which belongs into files that `open` reads. */
const MOST_BYTES = 32 * 2 ** 20;

const LOADERS: Readonly<Record<string, Loader>> = {
  '.js': 'js',
  '.mjs': 'js',
  '.cjs': 'js',
  '.jsx': 'jsx',
  '.ts': 'ts',
  '.mts': 'ts',
  '.cts': 'ts',
  '.tsx': 'tsx',
};

/** Packages that load native addons by a name that they compute. */
const ADDON_LOADERS = /^(bindings|node-gyp-build|node-pre-gyp|@mapbox\/node-pre-gyp)$/;

/**
 * The places that a module may ask for are those of its own file, not of the bundle. Texts change within their line, so
 * that lines stay true.
 */
function withOwnPlaces(text: string, path: string): string {
  const place = { url: pathToFileURL(path).href, filename: path, dirname: dirname(path) };
  const replaced = text.replaceAll(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, name: keyof typeof place) =>
    JSON.stringify(place[name]),
  );
  const asksCommonJs =
    /\b__(filename|dirname)\b/.test(text) && !/\b(const|let|var)\s+__(filename|dirname)\b/.test(text);
  if (!asksCommonJs || text.startsWith('#!')) return replaced;
  return `var __filename = ${JSON.stringify(path)}, __dirname = ${JSON.stringify(dirname(path))}; ${replaced}`;
}

const refused = (text: string) => ({ errors: [{ text }] });

const asItRuns: Plugin = {
  name: 'longhaul',
  setup(build) {
    build.onResolve({ filter: /^longhaul$/ }, ({ path }) => ({ path, external: true }));
    build.onResolve({ filter: /^longhaul\// }, () => refused("longhaul has no such part: import from 'longhaul'"));
    build.onResolve({ filter: /\.node$/ }, ({ path }) =>
      refused(`${path} is a native addon, which no bundle can hold`),
    );
    build.onResolve({ filter: ADDON_LOADERS }, ({ path }) =>
      refused(`${path} loads a native addon, which no bundle can hold`),
    );
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }) => ({
      contents: withOwnPlaces(await readFile(path, 'utf8'), path),
      loader: LOADERS[extname(path)] ?? 'js',
    }));
  },
};

/** `text (FILE:LINE)`. */
function reasonOf({ text, location }: Message): string {
  if (location === null) return text;
  return `${text} (${join('/', location.file)}:${location.line})`;
}

const messagesOf = (error: unknown): readonly Message[] =>
  (error as { readonly errors?: readonly Message[] } | undefined)?.errors ?? [];

let last: Promise<unknown> = Promise.resolve();

/** One bundling at a time: esbuild's process is ended after each. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const mine = last.then(work, work);
  last = mine.catch(() => undefined);
  return mine;
}

async function build(paths: readonly string[]): Promise<Uint8Array> {
  const esbuild = await import('esbuild');
  try {
    const { outputFiles } = await esbuild.build({
      stdin: {
        contents: paths.map((path) => `import ${JSON.stringify(path)};`).join('\n'),
        resolveDir: '/',
        sourcefile: 'modules',
      },
      plugins: [asItRuns],
      // Nothing in the text depends on the folder of the process that bundles.
      absWorkingDir: '/',
      outfile: '/modules.mjs',
      sourceRoot: 'file:///',
      sourcemap: 'inline',
      bundle: true,
      // A package that says it has no side effects would lose its definitions.
      ignoreAnnotations: true,
      write: false,
      format: 'esm',
      platform: 'node',
      target: 'node22',
      charset: 'utf8',
      legalComments: 'none',
      logLevel: 'silent',
      // Modules of a folder without `node_modules` find the packages that Longhaul itself has.
      nodePaths: [join(packageRoot, 'node_modules')],
      // CommonJS packages ask for Node's modules by `require`.
      banner: {
        js:
          "import { createRequire as __createRequire } from 'node:module'; " +
          'const require = __createRequire(import.meta.url);',
      },
    });
    return outputFiles[0]?.contents ?? new Uint8Array();
  } finally {
    await esbuild.stop();
  }
}

/**
 * Bundles the modules at `paths` (absolute). Errors: `UserInputError` for `field`, with the file and line of what
 * cannot be bundled.
 */
export async function bundleModules(paths: readonly string[], field = 'modules'): Promise<Bundle> {
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined)
    throw new UserInputError(field, missing, 'give modules that can be bundled: there is no such file');
  const code = await inTurn(() => build(paths)).catch((error: unknown) => {
    const [first, ...others] = messagesOf(error);
    if (first === undefined) throw error;
    const more = others.length === 0 ? '' : `; and ${others.length} more`;
    throw new UserInputError(field, paths, `give modules that can be bundled: ${reasonOf(first)}${more}`, {
      cause: error,
    });
  });
  if (code.length > MOST_BYTES)
    throw new UserInputError(
      field,
      paths,
      `the bundle has ${Math.ceil(code.length / 2 ** 20)} MiB, and ${MOST_BYTES / 2 ** 20} are the most: ` +
        'read data from files in open',
    );
  return { digest: `sha256:${createHash('sha256').update(code).digest('hex')}`, code, paths };
}
