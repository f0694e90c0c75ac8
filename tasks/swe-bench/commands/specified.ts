/**
 * What SWE-bench specifies for repositories that are not in Python: the commands that build one and run its tests, by
 * its version, and the programs and variables of its image. Data: `test-commands.json`.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { z } from 'zod';
import type { Instance } from '../instance.ts';
import { calypsoCommands } from './calypso.ts';

const FILE = join(packageRoot, 'tasks/swe-bench/commands/test-commands.json');

const lines = z.array(z.string());
const specification = z.strictObject({
  language: z.enum(['c', 'go', 'java', 'js', 'php', 'rb', 'rs']),
  commands: z.array(
    z.strictObject({
      versions: lines,
      /** Of the image's Node, where nvm installed it; `{version}` is the instance's. */
      node: z.string().optional(),
      build: lines.default([]),
      test: lines,
    }),
  ),
});
type Specification = z.infer<typeof specification>;

let read: Readonly<Record<string, Specification>> | undefined;

/** By the repository's name in small letters: records differ in the case of some. */
function specificationOf({ repo }: Pick<Instance, 'repo'>): Specification | undefined {
  read ??= z.record(z.string(), specification).parse(JSON.parse(readFileSync(FILE, 'utf8')));
  const name = repo.toLowerCase();
  return Object.hasOwn(read, name) ? read[name] : undefined;
}

const commandsOf = (instance: Pick<Instance, 'repo' | 'version'>) =>
  specificationOf(instance)?.commands.find(({ versions }) => versions.includes(instance.version));

/**
 * The script of the instance's tests; `undefined`: none is specified. Commands are printed, which some parsers of logs
 * need.
 */
export function specifiedScript(instance: Instance): { readonly prepare: string; readonly test: string } | undefined {
  const commands = commandsOf(instance);
  if (commands === undefined) return undefined;
  const own = instance.repo.toLowerCase() === 'automattic/wp-calypso' ? calypsoCommands(instance) : commands.test;
  return { prepare: ['set -uxo pipefail', ...commands.build].join('\n'), test: own.join('\n') };
}

export interface ImagePrograms {
  /** Folders of programs, before the system's. */
  readonly path: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const CHROME = '/usr/bin/google-chrome';
const NVM = '/usr/local/nvm';

/** As nvm installs Node, for Multimodal. The others have the system's Node. */
const withNode = (node: string): ImagePrograms => ({
  path: ['/usr/local/pnpm', `${NVM}/versions/node/v${node}/bin`],
  env: {
    NVM_DIR: NVM,
    NODE_PATH: `${NVM}/v${node}/lib/node_modules`,
    PNPM_HOME: '/usr/local/pnpm',
    CHROME_BIN: CHROME,
    DBUS_SESSION_BUS_ADDRESS: 'unix:path=/run/dbus/system_bus_socket',
    PUPPETEER_SKIP_CHROMIUM_DOWNLOAD: 'true',
    OPENSSL_CONF: '/etc/ssl',
  },
});

const PROGRAMS: Readonly<Record<Specification['language'], ImagePrograms>> = {
  c: { path: [], env: {} },
  go: { path: ['/usr/local/go/bin'], env: { GOPROXY: 'off' } },
  java: {
    path: ['/usr/local/mvnd/bin', '/opt/java/openjdk/bin'],
    env: { JAVA_HOME: '/opt/java/openjdk', MVND_HOME: '/usr/local/mvnd' },
  },
  js: { path: [], env: { CHROME_BIN: CHROME, CHROME_PATH: CHROME } },
  php: { path: [], env: {} },
  rb: {
    path: ['/usr/local/bundle/bin'],
    env: { GEM_HOME: '/usr/local/bundle', BUNDLE_APP_CONFIG: '/usr/local/bundle' },
  },
  rs: {
    path: ['/usr/local/cargo/bin'],
    env: { RUSTUP_HOME: '/usr/local/rustup', CARGO_HOME: '/usr/local/cargo', CARGO_NET_OFFLINE: 'true' },
  },
};

/** Where SWE-bench's images have the programs of a language; `undefined`: the repository is in Python, or unknown. */
export function programsOf(instance: Pick<Instance, 'repo' | 'version'>): ImagePrograms | undefined {
  const language = specificationOf(instance)?.language;
  if (language === undefined) return undefined;
  const node = commandsOf(instance)?.node?.replace('{version}', () => instance.version);
  return node === undefined ? PROGRAMS[language] : withNode(node);
}
