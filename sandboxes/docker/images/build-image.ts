/**
 * Builds an image from a folder with a Dockerfile, by the daemon. The image's tag is named by what it is made of, so an
 * image that is there is never built again.
 */

import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Readable } from 'node:stream';

import { type ImageBuild, SandboxImpossible, SandboxUnavailable } from '../../sandbox.ts';
import type { Engine } from '../engine.ts';
import { LABEL } from '../container.ts';
import { followReports, type PullReport } from './progress.ts';
import { isFinal } from './pull.ts';

const SECONDS = 600;
/** Characters of the build's last output in an error. */
const MOST_SAID = 2000;

type BuildReport = PullReport & { readonly stream?: string };

/**
 * Builds `build.context` as `tag`. Errors: `SandboxImpossible` if the Dockerfile cannot be built, or names an image
 * that its registry does not have; `SandboxUnavailable` if a later attempt may succeed.
 */
export async function buildImage(
  engine: Engine,
  tag: string,
  build: ImageBuild,
  { onProgress }: { readonly onProgress?: (line: string) => void },
): Promise<void> {
  const seconds = build.seconds ?? SECONDS;
  const abort = new AbortController();
  let said = '';
  const onReport = (report: BuildReport): void => {
    const line = report.stream ?? report.status ?? '';
    said = `${said}${line}`.slice(-MOST_SAID);
    if (/^Step \d+\/\d+ : /u.test(line)) onProgress?.(`${tag}: ${line.trim()}`);
  };
  const work = async (): Promise<void> => {
    const stream = (await engine.docker.buildImage(
      { context: build.context, src: readdirSync(build.context) },
      {
        t: tag,
        dockerfile: build.dockerfile,
        rm: true,
        forcerm: true,
        labels: { [LABEL]: 'image' },
        buildargs: { ...build.arguments },
        abortSignal: abort.signal,
      },
    )) as Readable;
    // A step may be silent for as long as the whole build may take.
    await followReports(stream, onReport, seconds * 1000);
  };
  const late = async (): Promise<never> => {
    await sleep(seconds * 1000, undefined, { signal: abort.signal });
    abort.abort();
    throw new SandboxUnavailable(`image ${tag} was not built within ${seconds} s (${build.context}): ${said}`);
  };
  try {
    await Promise.race([work(), late()]);
  } catch (error) {
    if (error instanceof SandboxUnavailable) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    const message = `image ${tag} cannot be built from ${build.context}/${build.dockerfile}: ${reason}: ${said}`;
    if (isFinal(error) || /dockerfile parse error|failed to parse|unknown instruction/iu.test(reason))
      throw new SandboxImpossible(message, { cause: error });
    throw new SandboxUnavailable(message, { cause: error });
  } finally {
    abort.abort();
  }
}
