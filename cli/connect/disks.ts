/** The disks of this working directory's stack, for verbs that look at them before they blame anything else. */

import { type DiskTrouble, diskTroubles, runPlaces, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import type { VerbContext } from '../verb.ts';

/** What keeps them from being written; each is said at once, as a remark. */
export async function tellOfDisks({ env, cwd, note }: VerbContext): Promise<readonly DiskTrouble[]> {
  const home = stackHome(env, cwd);
  const troubles = diskTroubles([...stackPlaces(home), ...(await runPlaces(home))]);
  for (const { line } of troubles) note(line);
  return troubles;
}

/** What is said of a server that does not answer: its disk, where that is why. */
export function awayLine(line: string): string {
  return diskTroubles(stackPlaces(stackHome()))[0]?.line ?? line;
}
