/**
 * A worker keeps its place in the stack as long as its ready file is its own. A supervisor that is killed before it
 * records a new worker leaves that worker unknown: the next supervisor starts a second one, and nobody would end the
 * first. The file's modification time shows that its worker still works.
 */

import { readFile, utimes } from 'node:fs/promises';

const LOOK_EVERY_MS = 2_000;
/** Looks without a file before the place counts as lost: a successor removes the file before it writes its own. */
const MISSES = 5;

export type Place = 'own' | 'taken' | 'missing';

/** The process id in the ready file at `path`; `undefined` if there is no file, or it cannot be read now. */
export async function holderOf(path: string): Promise<number | undefined> {
  try {
    const { pid } = JSON.parse(await readFile(path, 'utf8')) as { readonly pid?: unknown };
    return typeof pid === 'number' ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Whose ready file is at `path`; `own` if the file cannot be read now. */
export async function placeOf(path: string, pid: number): Promise<Place> {
  try {
    const said = JSON.parse(await readFile(path, 'utf8')) as { readonly pid?: unknown };
    return said.pid === pid ? 'own' : 'taken';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'own';
  }
}

/** Calls `onLost` once, with the reason, when the place is lost. Returns a function that stops the watch. */
export function watchPlace(path: string, onLost: (reason: string) => void, everyMs = LOOK_EVERY_MS): () => void {
  let misses = 0;
  let over = false;
  const end = () => {
    over = true;
    clearInterval(timer);
  };
  const look = async () => {
    const place = await placeOf(path, process.pid);
    // A disk that cannot be written is reported elsewhere.
    if (place === 'own') await utimes(path, new Date(), new Date()).catch(() => undefined);
    misses = place === 'missing' ? misses + 1 : 0;
    if (over || place === 'own' || (place === 'missing' && misses < MISSES)) return;
    end();
    onLost(place === 'taken' ? 'another process has its place in the stack' : 'its stack is down');
  };
  const timer = setInterval(() => void look(), everyMs);
  timer.unref();
  return end;
}
