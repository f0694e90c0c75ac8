/** Checks every part that Longhaul uses here. Each missing part has the command or setting that fixes it. */

import { ask, which } from '#setup/command.mjs';
import { findNode } from '#setup/pinned-node.mjs';
import { prerequisites } from '#setup/steps/prerequisites.mjs';
import { addressText, ENDPOINTS_VARIABLE, KEYS_VARIABLE, keyText } from '../../endpoints/allowed-addresses.ts';
import { readAllowedAddresses, MAX_SANDBOXES, readMaxLiveSandboxes } from '../../workers/settings.ts';
import { type Finding, finding } from './finding.ts';
import { openStore, storeExists, storeName } from '../../store/open-store.ts';
import { diskTroubles, NEEDED_BYTES, runPlaces, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { storeUrlOf } from '../../connection/store-url.ts';
import { examineEngine, examineGpu, examinePool } from './engine.ts';
import { examineSandboxes } from './sandboxes.ts';
import { examineTemporal } from './temporal.ts';

const APT = 'sudo apt-get install -y';
export const DISKS = 'room on the disks';
const SETUP = 'npx longhaul setup';

export async function examine(root: string, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  return [
    examineNode(root),
    ...prerequisites(env)
      .filter((one) => ['Python 3', 'pip for Python 3', 'a C++ compiler', 'make'].includes(one.what))
      .map(({ what, remedy, found }) => finding(what, true, found, remedy)),
    examineEngine(root, env),
    examineGpu(env),
    examinePool(env),
    await examineTemporal(env),
    ...(await examineSandboxes(env)),
    examineRoom(env),
    await examineDisks(env),
    ...examineAllowed(env),
    examineChromium(env),
    finding('Xvfb and xdotool (for tasks on a desktop)', false, desktopPrograms(env), `${APT} xvfb xdotool python3-tk`),
    await examineSqlite(),
    await examineStore(env),
    finding(
      'fallocate (logs rotate without losing a line)',
      false,
      version(env, 'fallocate', ['--version']),
      `${APT} util-linux`,
    ),
    finding('PostgreSQL (for several machines)', false, version(env, 'psql', ['--version']), `${APT} postgresql`),
  ];
}

function examineNode(root: string): Finding {
  const node = findNode(root);
  return finding('Node.js', true, node && `${node.version}${node.pinned ? ' (pinned)' : ''}`, SETUP);
}

/** The largest number of sandboxes that may live here at once; more wait. */
function examineRoom(env: NodeJS.ProcessEnv): Finding {
  const name = 'sandboxes at once';
  try {
    const given = env[MAX_SANDBOXES] ? MAX_SANDBOXES : `by cores and memory; ${MAX_SANDBOXES} overrides it`;
    return finding(name, true, `${readMaxLiveSandboxes(env)} (${given})`, '');
  } catch (error) {
    return finding(name, true, undefined, error instanceof Error ? error.message : String(error));
  }
}

/** Checks the disks of the store, of Temporal's database and of the folders of this store's runs. */
async function examineDisks(env: NodeJS.ProcessEnv): Promise<Finding> {
  const home = stackHome(env);
  const troubles = diskTroubles([...stackPlaces(home, env), ...(await runPlaces(home, env))]);
  const enough = `at least ${NEEDED_BYTES / 2 ** 20} MiB at ${home}, and at the folders of its runs`;
  return finding(DISKS, true, troubles.length === 0 ? enough : undefined, troubles.map(({ line }) => line).join('; '));
}

function examineChromium(env: NodeJS.ProcessEnv): Finding {
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const found = names.map((name) => version(env, name, ['--version'])).find((one) => one !== undefined);
  return finding('Chromium (for tests of the dashboard)', false, found, `${APT} chromium`);
}

/** Neither program says a version without a display. */
function desktopPrograms(env: NodeJS.ProcessEnv): string | undefined {
  const found = ['Xvfb', 'xdotool'].map((name) => which(name, env));
  return found.every((one) => one !== undefined) ? found.join(', ') : undefined;
}

async function examineSqlite(): Promise<Finding> {
  const { DatabaseSync } = await import('node:sqlite');
  const database = new DatabaseSync(':memory:');
  const row = database.prepare('select sqlite_version() as version').get();
  database.close();
  return finding('SQLite (in Node.js)', true, String(row?.['version']), SETUP);
}

/** Checks the store of this folder by opening it. */
async function examineStore(env: NodeJS.ProcessEnv): Promise<Finding> {
  const url = storeUrlOf(env);
  const place = storeName(url);
  const name = 'store of this folder';
  if (!(await storeExists(url))) return finding(name, false, undefined, `not required: the first run creates ${place}`);
  try {
    const store = await openStore(url);
    const runs = await store.list('run:');
    await store.close();
    return finding(name, false, `${place}, ${runs.length} runs`, '');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return finding(
      name,
      true,
      undefined,
      `${place} cannot be opened (${why}); restore it from a backup, or set LONGHAUL_HOME to another folder`,
    );
  }
}

function version(env: NodeJS.ProcessEnv, name: string, args: string[]): string | undefined {
  const path = which(name, env);
  return path === undefined ? undefined : ask(path, args)?.split('\n')[0];
}

const KEYS = 'keys of endpoints';

/** Lists what inputs of workflows may name here: addresses and names of variables, never a value. */
function examineAllowed(env: NodeJS.ProcessEnv): Finding[] {
  try {
    const { keys, endpoints } = readAllowedAddresses(env);
    const listed = keys.map((key) => `${keyText(key)}${env[key.name] ? '' : ' (not set here)'}`);
    const asked = endpoints?.map(addressText) ?? [`any but link-local ones; ${ENDPOINTS_VARIABLE} restricts them`];
    return [
      finding(KEYS, true, listed.join(', ') || `none; ${KEYS_VARIABLE}=NAME@https://host/v1 allows one`, ''),
      finding('addresses of endpoints', true, asked.join(', '), ''),
    ];
  } catch (error) {
    return [finding(KEYS, true, undefined, error instanceof Error ? error.message : String(error))];
  }
}
