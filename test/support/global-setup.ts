/** What all test files of one run share, and what is left of it at the end: nothing. */

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FOLDER_VARIABLE, stopOwnDaemon } from './containers/docker-daemon.ts';
import { stopOwnPodman } from './containers/podman-service.ts';

export default function setup(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-docker-'));
  process.env[FOLDER_VARIABLE] = folder;
  return async () => {
    await stopOwnPodman(folder);
    await stopOwnDaemon(folder);
  };
}
