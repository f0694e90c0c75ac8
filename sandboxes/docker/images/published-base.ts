/**
 * A published image as the base image: it is pulled, checked for the programs that tasks need, and given the /etc of
 * every sandbox. An image that lacks a program is never used.
 */

import { createHash } from 'node:crypto';

import { SandboxImpossible, SandboxUnavailable } from '../../sandbox.ts';
import { sandboxEtc } from '../../supervised/runtime.ts';
import { classifyDocker, type Engine, within } from '../engine.ts';
import { isFinal, pullOnce, type PullOptions, refusedPull } from './pull.ts';

/** Debian 12 with git, procps, and the Python that Mercurial depends on (`buildpack-deps:bookworm-scm`). */
export const PUBLISHED_BASE =
  'docker.io/library/buildpack-deps@sha256:4332a0bc58e96b1311c7d9a9c53d0a4dcc141c801869cbd555e7d7797ea95c3b';
/** The programs that tasks call. */
const PROGRAMS = ['bash', 'git', 'python3', 'ps'];
const REMOVED = ['machine-id', 'shadow', 'shadow-', 'gshadow', 'gshadow-'];
/** Short: if the registry does not answer, the base image is built here instead. */
const LIMITS = { answerMs: 20_000, silentMs: 60_000 };
const CHECKED_WITHIN_MS = 60_000;
const LACKS = 9;

const REPOSITORY = 'localhost/longhaul-base';

const tagOf = (reference: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ format: 1, reference, etc: sandboxEtc, removed: REMOVED, arch: process.arch }))
    .digest('hex')
    .slice(0, 16);

export const publishedName = (reference: string): string => `${REPOSITORY}:${tagOf(reference)}`;

/** False for files over which the daemon mounts its own, and for files that belong to a machine. */
const isOurs = (name: string): boolean => !['hosts', 'hostname', 'ld.so.cache'].includes(name);

const SCRIPT = [
  `lacks=; for program in ${PROGRAMS.join(' ')}; do command -v $program >/dev/null || lacks="$lacks $program"; done`,
  `[ -z "$lacks" ] || { echo "lacks$lacks"; exit ${LACKS}; }`,
  'set -e',
  ...Object.entries(sandboxEtc)
    .filter(([name]) => isOurs(name))
    .map(([name, text]) => `printf '%b' '${text.replaceAll('\n', '\\n')}' > /etc/${name}`),
  `cd /etc && rm -f ${REMOVED.join(' ')}`,
].join('\n');

async function prepared(engine: Engine, reference: string): Promise<void> {
  const options = {
    Image: reference,
    Entrypoint: ['/bin/sh', '-c', SCRIPT],
    Cmd: [],
    User: '0:0',
    HostConfig: { NetworkMode: 'none' },
  };
  const container = await within('create', engine.docker.createContainer(options));
  try {
    await within('start', container.start());
    const { StatusCode } = (await within('wait', container.wait(), CHECKED_WITHIN_MS)) as { StatusCode: number };
    const said = (await within('logs', container.logs({ stdout: true, stderr: true, tail: 5 })))
      .toString('utf8')
      .replaceAll(/[^\x20-\x7e]+/gu, ' ')
      .trim();
    if (StatusCode === LACKS) throw new SandboxImpossible(`image ${reference} ${said}`);
    if (StatusCode !== 0)
      throw new SandboxUnavailable(`image ${reference} could not be checked (${StatusCode}): ${said.slice(0, 500)}`);
    await within('commit', container.commit({ repo: REPOSITORY, tag: tagOf(reference) }), CHECKED_WITHIN_MS);
  } finally {
    await within('remove', container.remove({ force: true, v: true })).catch(() => undefined);
  }
}

/** Makes the image `publishedName(reference)`. Errors: `SandboxImpossible`, `SandboxUnavailable`. */
export async function makePublished(engine: Engine, reference: string, options: PullOptions): Promise<void> {
  try {
    await pullOnce(engine, reference, options, LIMITS);
  } catch (error) {
    if (isFinal(error)) throw refusedPull(reference, error);
    throw new SandboxUnavailable(
      `image ${reference} could not be pulled: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  try {
    await prepared(engine, reference);
  } catch (error) {
    throw classifyDocker(`image ${reference}`, error);
  }
}
