/** What isolates sandboxes: what this folder has chosen or is told to use must be there, else one of the two. */

import { join } from 'node:path';
import { ask, which } from '#setup/command.mjs';
import { askedFor, describeChoice, readChoice } from '../../workers/sandbox-choice.ts';
import { readSandboxSettings } from '../../workers/settings.ts';
import { stackHome } from '../../workers/stack/stack-state.ts';
import { examineDocker } from './docker.ts';
import { type Finding, finding } from './finding.ts';

const CHOICE = 'sandboxes of this folder';

export async function examineSandboxes(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const bubblewrap = examineBubblewrap(env);
  const docker = await examineDocker(env);
  const { needed, choice } = examineChoice(env);
  // Where nothing is chosen, the one that is missing matters only when both are.
  const isolated = bubblewrap.state === 'ok' || docker.state === 'ok';
  return [
    { ...bubblewrap, required: needed === undefined ? !isolated : needed === 'bubblewrap' },
    { ...docker, required: needed === 'docker' },
    choice,
  ];
}

/** Installed is not enough: some machines forbid the namespaces that it needs. */
function examineBubblewrap(env: NodeJS.ProcessEnv): Finding {
  const path = which('bwrap', env);
  if (path === undefined) return finding('bubblewrap', true, undefined, 'sudo apt-get install -y bubblewrap');
  const works = ask(path, ['--ro-bind', '/', '/', '--unshare-all', 'true']) !== undefined;
  const remedy = 'allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0';
  return finding('bubblewrap', true, works ? (ask(path, ['--version']) ?? path) : undefined, remedy);
}

function examineChoice(env: NodeJS.ProcessEnv) {
  try {
    const asked = askedFor(readSandboxSettings(env));
    const written = readChoice(join(stackHome(env), 'sandboxes'));
    const found = written && `${describeChoice(written)}${asked && asked.provider !== written.provider ? `; ${asked.setting} asks for ${asked.provider}` : ''}`;
    return { needed: asked?.provider ?? written?.provider, choice: finding(CHOICE, false, found, 'none needed: the first worker chooses') };
  } catch (error) {
    return { needed: undefined, choice: finding(CHOICE, true, undefined, error instanceof Error ? error.message : String(error)) };
  }
}
