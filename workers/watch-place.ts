/**
 * A worker keeps its place in the stack for as long as its ready file is its own. A supervisor that was killed before it
 * wrote down that it had started a worker starts another one, and nobody would ever end the first. The file's time says
 * that its worker still does its work.
 */

import { readFile, utimes } from 'node:fs/promises';

const LOOK_EVERY_MS = 2_000;
/** A successor takes the file away before it writes its own; nobody comes after a stack that is down. */
const MISSES = 5;

export type Place = 'own' | 'taken' | 'missing';

/** The process id that the ready file at `path` names; `undefined` where there is none, or it cannot be read now. */
export async function holderOf(path: string): Promise<number | undefined> {
  try {
    const { pid } = JSON.parse(await readFile(path, 'utf8')) as { readonly pid?: unknown };
    return typeof pid === 'number' ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Whose the ready file at `path` is. What cannot be read now says nothing: `own`. */
export async function placeOf(path: string, pid: number): Promise<Place> {
  try {
    const said = JSON.parse(await readFile(path, 'utf8')) as { readonly pid?: unknown };
    return said.pid === pid ? 'own' : 'taken';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'own';
  }
}

/** Calls `onLost` once, with the reason, when the place is another one's or nobody's; the returned function ends the watch. */
export function watchPlace(path: string, onLost: (reason: string) => void, everyMs = LOOK_EVERY_MS): () => void {
  let misses = 0;
  let over = false;
  const end = () => {
    over = true;
    clearInterval(timer);
  };
  const look = async () => {
    const place = await placeOf(path, process.pid);
    // A disk that takes no time any more is told of by itself.
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
