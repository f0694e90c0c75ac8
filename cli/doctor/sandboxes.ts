/**
 * Checks what isolates sandboxes. The kind that the folder chose, or that a setting names, is required; without either,
 * one of the two kinds is.
 */

import { join } from 'node:path';
import { ask, which } from '#setup/command.mjs';
import { askedFor, describeChoice, readChoice } from '../../workers/sandbox-choice.ts';
import { readSandboxSettings, type SandboxSettings } from '../../workers/settings.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { UserInputError } from '../../client/errors.ts';
import { examineDocker } from './docker.ts';
import { type Finding, finding } from './finding.ts';

const CHOICE = 'sandboxes of this folder';

/** Runs bubblewrap too, since some machines forbid the namespaces that it needs. */
function examineBubblewrap(env: NodeJS.ProcessEnv): Finding {
  const path = which('bwrap', env);
  if (path === undefined) return finding('bubblewrap', false, undefined, 'sudo apt-get install -y bubblewrap');
  const works = ask(path, ['--ro-bind', '/', '/', '--unshare-all', 'true']) !== undefined;
  const remedy =
    'allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 ' +
    'kernel.apparmor_restrict_unprivileged_userns=0';
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

function examineChoice(settings: SandboxSettings, env: NodeJS.ProcessEnv) {
  const asked = askedFor(settings);
  try {
    const written = readChoice(join(stackHome(env), 'sandboxes'));
    const found =
      written &&
      `${describeChoice(written)}` +
        `${asked && asked.provider !== written.provider ? `; ${asked.setting} asks for ${asked.provider}` : ''}`;
    return {
      needed: asked?.provider ?? written?.provider,
      choice: finding(CHOICE, false, found, 'not required: the first worker chooses'),
    };
  } catch (error) {
    return {
      needed: asked?.provider,
      choice: finding(CHOICE, true, undefined, error instanceof Error ? error.message : String(error)),
    };
  }
}

export async function examineSandboxes(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const { settings, wrong } = settingsOf(env);
  const { needed, choice } = examineChoice(settings, env);
  const bubblewrap = examineBubblewrap(env);
  const { daemon, image } = await examineDocker(settings, env);
  const dockerWorks = daemon.state === 'ok' && image?.state === 'ok';
  // If nothing is chosen, one of the two kinds is enough: a missing one matters only if both are missing.
  const needsBubblewrap = needed === 'bubblewrap' || (needed === undefined && !dockerWorks);
  const needsImage = needed === 'docker' || (needed === undefined && bubblewrap.state === 'missing');
  return [
    ...wrong,
    { ...bubblewrap, required: needsBubblewrap },
    { ...daemon, required: needed === 'docker' },
    ...(image === undefined ? [] : [{ ...image, required: needsImage }]),
    choice,
  ];
}
