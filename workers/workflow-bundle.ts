/** The workflow code as one bundle, built ahead and cached by the hash of its sources: workers start without webpack. */

import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** `.ts` in a checkout, `.js` in the published package. */
const EXTENSION = extname(fileURLToPath(import.meta.url));
/** Of the other folders workflows import types alone: nothing of them is in the bundle. */
const SOURCES = 'workflows';
/** Changes with the way in which a bundle is made of the same sources. */
const RECIPE = 'shared modules';

/** Of everything that the bundle is made of, in folders below too: another one is another bundle. */
export async function sourceHash(root = ROOT): Promise<string> {
  const hash = createHash('sha256');
  hash.update(`${RECIPE}\0${String(createRequire(import.meta.url)('@temporalio/worker/package.json').version)}`);
  const names = (await readdir(join(root, SOURCES), { recursive: true })).filter((name) => name.endsWith(EXTENSION));
  for (const name of names.toSorted()) hash.update(`${name}\0`).update(await readFile(join(root, SOURCES, name)));
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

/** What names the code of a bundle: the hash of its sources and of Temporal's SDK. */
export function buildIdOf(bundle: string): string {
  return basename(bundle, '.js');
}

/** The path of the bundle for the workflows as they are now; builds it when it is not cached. */
export async function buildWorkflowBundle(entry: BundleEntry = 'index'): Promise<string> {
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
  // Loaded once for all workflows of a process, not once for each: their modules hold no state, and are frozen.
  const { code } = await bundleWorkflowCode({ workflowsPath, preloadModules: [workflowsPath] });
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.partial-${process.pid}`;
  await writeFile(aside, code);
  await rename(aside, path);
  return path;
}
