/**
 * Takes the agent's patch: the same hardened collection as for `swe-mini`, with the bounds of a large repository. Git's
 * folder may be a link, or a file that names another place; binary files are named and never copied.
 */

import { type CollectionBounds, collectDiff } from '../swe-mini/collect.ts';
import type { TaskContext } from '../environment.ts';
import type { Machine } from '../resources.ts';
import { START } from './prepare.ts';

const LARGE: CollectionBounds = {
  maxBytes: 1 << 20,
  cpuMs: 60_000,
  timeoutMs: 600_000,
  most: { files: 300_000, depth: 100, pathBytes: 2048 },
  binary: false,
};

/** Brings git's objects back into the workspace before /tmp is emptied, and reads where the agent started. */
const prepare = (known: string): string =>
  [
    'g=.git',
    'if [ -L .git ]; then g=$(readlink -f .git); elif [ -f .git ]; then g=$(head -c 4096 .git | sed -n ' +
      '"1s/^gitdir: //p"); fi',
    'if [ "$g" != .git ] && [ -d "$g/objects" ]; then rm -f .git && cp -R "$g" .git; fi',
    'base=',
    `if [ -f .git/${START} ]; then base=$(head -c 100 .git/${START} | grep -xE "[0-9a-f]{40}|[0-9a-f]{64}"); fi`,
    `base=\${base:-${known}}`,
  ].join('\n');

/** `baseCommit`: where the agent started, if its sandbox does not say it any more. */
export async function collectPatch(
  ctx: TaskContext,
  machine: Machine,
  baseCommit: string | undefined,
): Promise<Uint8Array> {
  const { provider, execution } = ctx;
  const { network: _, ...spec } = machine;
  return await collectDiff({
    sandbox: await ctx.sandbox(),
    spec,
    base: '"$base"',
    prepare: prepare(baseCommit ?? 'HEAD'),
    bounds: LARGE,
    provider,
    execution,
  });
}
