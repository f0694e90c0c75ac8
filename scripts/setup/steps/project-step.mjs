/** A set-up step in one of the project's modules: it runs with the pinned Node, and again only if its inputs change. */

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { run } from '../command.mjs';
import { hashInputs, readJson, writeWhole } from '../files.mjs';

/**
 * Calls the export `name` of `module` with strings; it returns the path that it made. The call is skipped if the hash
 * of `inputs` (files and folders) is unchanged and that path exists. Returns `{ path, cached }`.
 */
export async function projectStep({ root, cache, node, module, name, inputs, args = [] }) {
  const source = join(root, module);
  const hash = hashInputs([source, ...inputs.map((one) => join(root, one))], root);
  const id = createHash('sha256').update(`${source}\0${name}`).digest('hex').slice(0, 16);
  const stampPath = join(cache, 'stamps', `${name}-${id}.json`);
  const stamp = readJson(stampPath);
  if (stamp?.hash === hash && existsSync(stamp.path)) return { path: stamp.path, cached: true };
  const printed = await run(node.path, ['--input-type=module', '-e', CALL, pathToFileURL(source).href, name, ...args], {
    cwd: root,
    env: { ...process.env, LONGHAUL_CACHE: cache },
  });
  const path = JSON.parse(printed.trim().split('\n').at(-1));
  if (!existsSync(path)) throw new Error(`${name} of ${module} returned ${path}, which does not exist`);
  writeWhole(stampPath, JSON.stringify({ hash, path }));
  return { path, cached: false };
}

const CALL = `
const [url, name, ...args] = process.argv.slice(1);
const made = await (await import(url))[name](...args);
process.stdout.write('\\n' + JSON.stringify(typeof made === 'string' ? made : made.path) + '\\n');
process.exit(0);
`;
