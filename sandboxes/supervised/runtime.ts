/**
 * The runtime folder: Longhaul's files that every sandbox sees (the supervisor, a minimal /etc). Any user can read it,
 * since bubblewrap runs as the sandbox's user. The content of a folder with a given name never changes.
 */

import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { SandboxNetwork } from '../sandbox.ts';

/** The files of /etc that every sandbox sees, by name. */
export const sandboxEtc: Readonly<Record<string, string>> = {
  passwd:
    'root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/tmp/home:/bin/bash\n' +
    'nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n',
  group: 'root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost longhaul\n::1 localhost\n',
  hostname: 'longhaul\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
  // Mount point for the machine's own file.
  'ld.so.cache': '',
};

export interface Runtime {
  readonly supervisor: string;
  readonly etc: string;
}

function fill(folder: string, supervisorPath: string): void {
  mkdirSync(join(folder, 'etc', 'alternatives'), { recursive: true, mode: 0o755 });
  for (const [name, text] of Object.entries(sandboxEtc)) {
    writeFileSync(join(folder, 'etc', name), text);
    chmodSync(join(folder, 'etc', name), 0o644);
  }
  copyFileSync(supervisorPath, join(folder, 'supervisor'));
  chmodSync(join(folder, 'supervisor'), 0o555);
  for (const name of ['', 'etc', 'etc/alternatives']) chmodSync(join(folder, name), 0o755);
}

/** Returns the runtime for exactly this supervisor, below `base`. Makes it if it is missing. */
export function prepareRuntime(base: string, supervisorPath: string): Runtime {
  const hash = createHash('sha256')
    .update(readFileSync(supervisorPath))
    .update(JSON.stringify(sandboxEtc))
    .digest('hex')
    .slice(0, 16);
  const folder = join(base, `runtime-${hash}`);
  if (!existsSync(folder)) {
    mkdirSync(base, { recursive: true, mode: 0o755 });
    const aside = `${folder}.partial-${process.pid}`;
    fill(aside, supervisorPath);
    try {
      renameSync(aside, folder);
    } catch (error) {
      rmSync(aside, { recursive: true, force: true });
      if (!existsSync(folder)) throw error;
    }
  }
  return { supervisor: join(folder, 'supervisor'), etc: join(folder, 'etc') };
}

/** A file beside the runtime that is /etc/hosts in the sandboxes of a network. It is made once for the same names. */
export function hostsFile({ supervisor }: Pick<Runtime, 'supervisor'>, { names }: SandboxNetwork): string {
  const text = `127.0.0.1 localhost longhaul ${names.join(' ')}\n::1 localhost\n`;
  const path = `${dirname(supervisor)}-hosts-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  if (existsSync(path)) return path;
  const aside = `${path}.partial-${process.pid}`;
  writeFileSync(aside, text);
  chmodSync(aside, 0o644);
  renameSync(aside, path);
  return path;
}
