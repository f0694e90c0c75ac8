/** The workflow code as one bundle, built once and cached by the hash of its sources: workers start without webpack. */

import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from '@temporalio/worker';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** `.ts` in a checkout, `.js` in the published package. */
const EXTENSION = extname(fileURLToPath(import.meta.url));
/** From other folders, workflows import only types: none of their code is in the bundle. */
export const BUNDLED = ['protocol', 'workflows'] as const;
/** To be changed when the same sources are bundled in another way. */
const RECIPE = 'shared modules';

/** The hash of everything that the bundle is made of, subfolders included. */
export async function sourceHash(root = ROOT): Promise<string> {
  const hash = createHash('sha256');
  hash.update(`${RECIPE}\0${String(createRequire(import.meta.url)('@temporalio/worker/package.json').version)}`);
  for (const folder of BUNDLED) {
    const names = (await readdir(join(root, folder), { recursive: true })).filter((name) => name.endsWith(EXTENSION));
    for (const name of names.toSorted())
      hash.update(`${folder}/${name}\0`).update(await readFile(join(root, folder, name)));
  }
  return hash.digest('hex').slice(0, 16);
}

function cacheDir(): string {
  return join(process.env['LONGHAUL_CACHE'] ?? join(homedir(), '.cache', 'longhaul'), 'workflow-bundles');
}

/** `index`: for workers without versioning. `versioned`: for builds side by side. */
export type BundleEntry = 'index' | 'versioned';

function folderOf(entry: BundleEntry): string {
  return entry === 'index' ? cacheDir() : join(cacheDir(), entry);
}

/** The bundle of an earlier build, if this machine still has it. */
export async function bundleOfBuild(buildId: string): Promise<string | undefined> {
  const path = join(folderOf('versioned'), `${basename(buildId)}.js`);
  return access(path).then(
    () => path,
    () => undefined,
  );
}

/** The id of a bundle's code: the hash of its sources and of the version of Temporal's SDK. */
export function buildIdOf(bundle: string): string {
  return basename(bundle, '.js');
}

/** The path of the bundle of the current workflow code; builds it if it is not cached. `logger`: of a worker. */
export async function buildWorkflowBundle(entry: BundleEntry = 'index', logger?: Logger): Promise<string> {
  const path = join(folderOf(entry), `${await sourceHash()}.js`);
  if (
    await access(path).then(
      () => true,
      () => false,
    )
  )
    return path;
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const workflowsPath = join(ROOT, 'workflows', `${entry}${EXTENSION}`);
  // Modules are loaded once per process, not once per workflow: they hold no state, and are frozen.
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    preloadModules: [workflowsPath],
    ...(logger ? { logger } : {}),
  });
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.partial-${process.pid}`;
  await writeFile(aside, code);
  await rename(aside, path);
  return path;
}
