/** What isolates sandboxes here, as workers would choose it: what is missing matters where the choice falls on it. */

import { ask, which } from '#setup/command.mjs';
import { readSandboxSettings, type SandboxSettings } from '../../workers/settings.ts';
import { UserInputError } from '../errors.ts';
import { examineDocker } from './docker.ts';
import { type Finding, finding } from './finding.ts';

/** Installed is not enough: some machines forbid the namespaces that it needs. */
function examineBubblewrap(env: NodeJS.ProcessEnv): Finding {
  const path = which('bwrap', env);
  if (path === undefined) return finding('bubblewrap', false, undefined, 'sudo apt-get install -y bubblewrap');
  const works = ask(path, ['--ro-bind', '/', '/', '--unshare-all', 'true']) !== undefined;
  const remedy = 'allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0';
  return finding('bubblewrap', false, works ? (ask(path, ['--version']) ?? path) : undefined, remedy);
}

function settingsOf(env: NodeJS.ProcessEnv): { readonly settings: SandboxSettings; readonly wrong: Finding[] } {
  try {
    return { settings: readSandboxSettings(env), wrong: [] };
  } catch (error) {
    if (!(error instanceof UserInputError)) throw error;
    return { settings: { provider: 'auto' }, wrong: [finding(error.field, true, undefined, error.message)] };
  }
}

export async function examineSandboxes(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const { settings, wrong } = settingsOf(env);
  const { provider, image, runtime } = settings;
  const bubblewrap = examineBubblewrap(env);
  const docker = await examineDocker(settings, env);
  const usable = docker.daemon.state === 'ok' && docker.image?.state === 'ok';
  const mustBeDocker = provider === 'docker' || image !== undefined || runtime !== undefined;
  const mayBeBubblewrap = !mustBeDocker;
  // Either isolates sandboxes where nothing is configured: the one that is missing matters only when both are.
  const needsBubblewrap = provider === 'bubblewrap' || (mayBeBubblewrap && !usable);
  const needsImage = mustBeDocker || (provider === 'auto' && bubblewrap.state === 'missing');
  return [
    ...wrong,
    { ...bubblewrap, required: needsBubblewrap },
    { ...docker.daemon, required: mustBeDocker },
    ...(docker.image === undefined ? [] : [{ ...docker.image, required: needsImage }]),
  ];
}
