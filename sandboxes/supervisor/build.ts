/**
 * Builds the supervisor with the machine's C compiler: one static program, named by the hash of its sources. It is
 * always complete: the compiler writes to another name, which is then renamed.
 */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The supervisor could not be compiled. `details`: the compiler's error. */
export class SupervisorBuildFailed extends Error {
  override readonly name = 'SupervisorBuildFailed';
  readonly details: string;

  constructor(details: string) {
    super(
      `the sandbox's supervisor could not be compiled (on Debian and Ubuntu: apt install gcc libc6-dev): ${details}`,
    );
    this.details = details;
  }
}

/** The folder of the C sources: beside this module, or in the package if this module was compiled into `dist`. */
async function sourceFolder(): Promise<string> {
  const here = fileURLToPath(new URL('.', import.meta.url));
  const candidates = ['native', '../../../sandboxes/supervisor/native'].map((place) => join(here, place));
  for (const folder of candidates) {
    const found = await access(join(folder, 'supervisor.c')).then(
      () => true,
      () => false,
    );
    if (found) return folder;
  }
  throw new SupervisorBuildFailed(`no supervisor.c in ${candidates.join(' or ')}`);
}

async function compile(sources: readonly string[], target: string): Promise<void> {
  const flags = ['-O2', '-std=gnu11', '-o', target, ...sources];
  const compiler = process.env['CC'] ?? 'cc';
  try {
    await run(compiler, ['-static', ...flags]);
  } catch {
    await run(compiler, flags).catch((error: unknown) => {
      throw new SupervisorBuildFailed(String(error));
    });
  }
}

/** Returns the path of the program in `outDir`. Compiles only if it holds no program of exactly these sources. */
export async function buildSupervisor(outDir: string): Promise<string> {
  const folder = await sourceFolder();
  const names = (await readdir(folder)).filter((name) => name.endsWith('.c') || name.endsWith('.h')).toSorted();
  const hash = createHash('sha256').update(process.arch);
  for (const name of names) hash.update(name).update(await readFile(join(folder, name)));
  const target = join(outDir, `supervisor-${hash.digest('hex').slice(0, 16)}`);
  const exists = await access(target).then(
    () => true,
    () => false,
  );
  if (exists) return target;
  await mkdir(outDir, { recursive: true });
  const aside = `${target}.partial-${process.pid}-${Date.now()}`;
  const sources = names.filter((name) => name.endsWith('.c')).map((name) => join(folder, name));
  try {
    await compile(sources, aside);
    await rename(aside, target);
  } finally {
    await rm(aside, { force: true });
  }
  return target;
}
