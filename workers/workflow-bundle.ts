/** The workflow code as one bundle, built ahead and cached by the hash of its sources: workers start without webpack. */

import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** `.ts` in a checkout, `.js` in the published package. */
const EXTENSION = extname(fileURLToPath(import.meta.url));
/** Folders whose code workflows may import. */
const SOURCES = ['workflows', 'agents', 'tasks', 'trainer', 'store'];

/** Of everything that the bundle is made of, in folders below too: another one is another bundle. */
export async function sourceHash(root = ROOT): Promise<string> {
  const hash = createHash('sha256');
  hash.update(String(createRequire(import.meta.url)('@temporalio/worker/package.json').version));
  for (const folder of SOURCES) {
    const names = (await readdir(join(root, folder), { recursive: true })).filter((name) => name.endsWith(EXTENSION)).sort();
    for (const name of names) hash.update(`${folder}/${name}\0`).update(await readFile(join(root, folder, name)));
  }
  return hash.digest('hex').slice(0, 16);
}

function cacheDir(): string {
  return join(process.env['LONGHAUL_CACHE'] ?? join(homedir(), '.cache', 'longhaul'), 'workflow-bundles');
}

/** The path of the bundle for the workflows as they are now; builds it when it is not cached. */
export async function buildWorkflowBundle(): Promise<string> {
  const path = join(cacheDir(), `${await sourceHash()}.js`);
  if (await access(path).then(() => true, () => false)) return path;
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const { code } = await bundleWorkflowCode({ workflowsPath: join(ROOT, 'workflows', `index${EXTENSION}`) });
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.partial-${process.pid}`;
  await writeFile(aside, code);
  await rename(aside, path);
  return path;
}
