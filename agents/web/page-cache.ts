/**
 * Pages that were read, as files in the stack's folder: all rollouts on this machine share them. Bounded in number and
 * age; the least recently read are removed first. A cache that cannot be written is not used.
 */

import { createHash } from 'node:crypto';
import { readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { stackHome } from '../../connection/stack-paths.ts';
import { writeAtomically } from '../../store/atomic-write.ts';
import type { Page } from './read-page.ts';

export interface CacheLimits {
  readonly pages: number;
  readonly hours: number;
}

/** Beside the store, in the stack's folder. */
export const cacheFolder = (): string => join(stackHome(), 'web-pages');

export class PageCache {
  readonly #folder: string;
  readonly #limits: CacheLimits;
  #written = 0;

  constructor(folder: string, limits: CacheLimits) {
    [this.#folder, this.#limits] = [folder, limits];
  }

  /** `reader`: pages of another reader are other pages. */
  #path(reader: string, url: URL): string {
    const name = createHash('sha256')
      .update(JSON.stringify([reader, url.href]))
      .digest('hex');
    return join(this.#folder, `${name}.json`);
  }

  async get(reader: string, url: URL): Promise<Page | undefined> {
    const path = this.#path(reader, url);
    try {
      const { birthtimeMs } = await stat(path);
      if (Date.now() - birthtimeMs > this.#limits.hours * 3_600_000) return undefined;
      const page = JSON.parse(await readFile(path, 'utf8')) as Page;
      await utimes(path, new Date(), new Date());
      return page;
    } catch {
      return undefined;
    }
  }

  async put(reader: string, url: URL, page: Page): Promise<void> {
    if (this.#limits.pages < 1) return;
    await writeAtomically(this.#path(reader, url), JSON.stringify(page)).catch(() => undefined);
    // A count of this process is enough: each process removes what is too much.
    if (this.#written % 50 === 0) await this.#shrink().catch(() => undefined);
    this.#written += 1;
  }

  async #shrink(): Promise<void> {
    const names = (await readdir(this.#folder)).filter((name) => name.endsWith('.json'));
    if (names.length <= this.#limits.pages) return;
    const read = await Promise.all(
      names.map(async (name) => {
        const path = join(this.#folder, name);
        return {
          path,
          at: await stat(path).then(
            ({ mtimeMs }) => mtimeMs,
            () => 0,
          ),
        };
      }),
    );
    const oldest = read.toSorted((a, b) => a.at - b.at).slice(0, names.length - this.#limits.pages);
    await Promise.all(oldest.map(({ path }) => rm(path, { force: true })));
  }
}
