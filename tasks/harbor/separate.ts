/**
 * A verifier with a sandbox of its own, which the agent never used: what the task declares is taken from the agent's
 * sandbox as an archive, and unpacked in the verifier's.
 */

import { shellLine } from './compose.ts';
import { MAIN, type SandboxRequest, type TaskContext } from '../environment.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { TaskFolder } from './read-task.ts';
import { Calls } from './verify.ts';

const MOST_BYTES = 64 << 20;
const PACK_MS = 300_000;
const TTL_SECONDS = 1800;
const ARCHIVE = '/tmp/longhaul-artifacts.tar';
/** Starts what is no archive: the reason why there is none. */
const NONE = 'no artifacts: ';

/** The sandbox in which a service of the task runs. */
const sandboxOf = ({ main }: TaskFolder, service: string | undefined): string =>
  service === undefined || service === main ? MAIN : service;

/**
 * Runs the task's hooks and returns the archive of its artifacts. What the agent's own work prevents is the artifact:
 * it is then the reason.
 */
export async function collectArtifacts(task: TaskFolder, ctx: TaskContext, keeps: boolean): Promise<Uint8Array> {
  const { artifacts, verifier } = task.toml;
  const callsOf = async (name: string) => new Calls(await ctx.sandbox(name), `${ctx.id}/${ctx.execution}/${name}`);
  const main = await callsOf(MAIN);
  for (const { command, service, timeout_sec: seconds } of verifier.collect) {
    const name = sandboxOf(task, service);
    const { exitCode, output } = await (name === MAIN ? main : await callsOf(name)).exec(
      command,
      seconds * 1000,
      false,
      4000,
    );
    if (exitCode !== 0)
      return Buffer.from(`${NONE}${command} ended with ${exitCode ?? 'a signal'}: ${output.slice(-300)}\n`);
  }
  const paths = ['/logs/artifacts', ...artifacts.map(({ source }) => source)].map((path) => path.replace(/^\//u, ''));
  const script = [
    `cd / && rm -f ${ARCHIVE} && set --`,
    ...paths.map((path) => `[ -e ${shellLine([path])} ] && set -- "$@" ${shellLine([path])}`),
    `if [ $# = 0 ]; then tar -cf ${ARCHIVE} -T /dev/null; else tar -cf ${ARCHIVE} --no-recursion -T /dev/null ` +
      `&& tar -cf ${ARCHIVE} -- "$@"; fi`,
  ].join('\n');
  const packed = await main.exec(script, PACK_MS, !keeps, 2000);
  if (packed.timedOut) throw new Error('the artifacts could not be packed in time');
  if (packed.exitCode !== 0) return Buffer.from(`${NONE}${packed.output.slice(0, 300)}\n`);
  const read = await main.read(ARCHIVE, MOST_BYTES);
  return read.kind === 'file' ? read.content : Buffer.from(`${NONE}the archive is ${read.kind}\n`);
}

/** Why there is no archive; `undefined` if there is one. */
export function whyNoArtifacts(artifact: Uint8Array): string | undefined {
  const head = Buffer.from(artifact.subarray(0, 400)).toString('utf8');
  return head.startsWith(NONE) ? head.slice(NONE.length).trim() : undefined;
}

/** The verifier's sandbox with the artifacts in it. `own`: the environment that the verifier declares. */
export async function verifierSandbox(
  ctx: TaskContext,
  own: SandboxRequest | undefined,
  limits: { readonly memoryMiB: number; readonly diskMiB: number; readonly processes: number },
  artifact: Uint8Array,
): Promise<Sandbox> {
  const { network: _network, ...spec } = own ?? { workdir: '', files: [], env: {} };
  const sandbox =
    own === undefined
      ? await ctx.sandbox()
      : await ctx.provider.create({
          ...spec,
          id: `${ctx.id}/verifier`,
          limits: { ...limits, ...own.limits },
          ttlSeconds: TTL_SECONDS,
        });
  const calls = new Calls(sandbox, `${ctx.id}/unpack`);
  const failed = await calls.upload([{ path: ARCHIVE.slice(1), content: Buffer.from(artifact), mode: 0o644 }], '/');
  if (failed !== undefined) throw new Error(`the artifacts cannot be uploaded: ${failed}`);
  const { exitCode, output } = await calls.exec(
    `tar -xf ${ARCHIVE} -C / --no-same-owner --no-overwrite-dir --no-same-permissions; rm -f ${ARCHIVE}`,
    PACK_MS,
    false,
    2000,
  );
  if (exitCode !== 0) throw new Error(`the artifacts cannot be unpacked: ${output.slice(0, 300)}`);
  return sandbox;
}
