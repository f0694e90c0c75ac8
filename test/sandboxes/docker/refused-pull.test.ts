/**
 * Hunts refusals of a registry that are taken for its absence, so that a start waits for what never comes and is not told
 * of `docker login`; and a login that has expired and keeps images back that are for everybody. The daemon is a scripted
 * one, its words are real ones; not asserted: that a daemon uses them (`credentials.test.ts` asks one).
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Engine } from '../../../sandboxes/docker/engine.ts';
import type { RegistryAuth } from '../../../sandboxes/docker/images/credentials.ts';
import { imageOutlook } from '../../../sandboxes/docker/images/outlook.ts';
import { isFinal, pullImage } from '../../../sandboxes/docker/images/pull.ts';
import { DaemonRefused } from '../../../sandboxes/docker/images/progress.ts';
import { SandboxImpossible, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';

const image = 'ghcr.io/a/b:1';
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-refused-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const http = (statusCode: number, message: string) =>
  Object.assign(new Error(`(HTTP code ${statusCode}) server error - ${message}`), { statusCode });
const EXPIRED = http(500, 'Head "https://ghcr.io/v2/a/b/manifests/1": denied: denied');
const PRIVATE = http(500, 'Head "https://ghcr.io/v2/a/b/manifests/1": unauthorized');
const AWAY = http(500, 'Get "https://ghcr.io/v2/": dial tcp: lookup ghcr.io: no such host');

function loggedIn(): NodeJS.ProcessEnv {
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({ auths: { 'ghcr.io': { auth: Buffer.from('me:old').toString('base64') } } }),
  );
  return { DOCKER_CONFIG: folder };
}

/** Answers one ask after the other, with the last of `answers` from then on; `undefined`: the image. */
function scripted(answers: ReadonlyArray<Error | undefined>) {
  const asked: Array<string | undefined> = [];
  const answer = async ({ authconfig }: { authconfig?: RegistryAuth }) => {
    const error = answers[Math.min(asked.push(authconfig?.username), answers.length) - 1];
    if (error) throw error;
    return Readable.from(['{"status":"Pull complete","id":"x"}\n']);
  };
  const inspect = () => Promise.reject(http(404, 'no such image'));
  const docker = {
    pull: (_: string, options: object) => answer(options),
    getImage: () => ({ inspect, distribution: answer }),
  };
  return { asked, engine: { docker } as unknown as Engine };
}

describe('what a registry says', () => {
  it.each([
    EXPIRED,
    http(500, 'Head "https://registry.example/v2/a/manifests/1": 403 Forbidden'),
    new DaemonRefused('denied: User: arn:aws:sts::1:x is not authorized to perform: ecr:BatchGetImage'),
    new DaemonRefused(
      'error parsing HTTP 403 response body: denied: Permission "downloadArtifacts" denied on resource',
    ),
    new DaemonRefused("pull access denied for a/b, repository does not exist or may require 'docker login'"),
  ])('is final where it refuses us: %s', async (refusal) => {
    expect(isFinal(refusal)).toBe(true);
    const { engine, asked } = scripted([refusal]);
    const pulled = pullImage(engine, image, { pauseMs: 1, env: { DOCKER_CONFIG: folder } });
    await expect(pulled).rejects.toThrow(SandboxImpossible);
    await expect(pulled).rejects.toThrow('docker login ghcr.io');
    expect(asked).toEqual([undefined]);
  });

  it.each([
    AWAY,
    http(500, 'toomanyrequests: denied for now'),
    http(500, 'dial tcp 10.0.0.1:443: connect: permission denied'),
  ])('is not where a later try may do: %s', (error) => expect(isFinal(error)).toBe(false));
});

describe('a login that is refused', () => {
  it('keeps nobody from an image that is for everybody, and is told', async () => {
    const heard: string[] = [];
    const { engine, asked } = scripted([EXPIRED, undefined]);
    await pullImage(engine, image, { pauseMs: 1, env: loggedIn(), onProgress: (line) => heard.push(line) });
    expect(asked).toEqual(['me', undefined]);
    expect(heard[0]).toMatch(
      /ghcr\.io rejects the credentials of docker login \(.*denied: denied\); retrying without them/u,
    );
  });

  it('is what is told where nobody gets the image, once', async () => {
    const { engine, asked } = scripted([EXPIRED, PRIVATE]);
    const pulled = pullImage(engine, image, { pauseMs: 1, env: loggedIn() });
    await expect(pulled).rejects.toThrow(
      /denied: denied; log in where the init worker runs \(docker login ghcr\.io\)/u,
    );
    expect(asked).toEqual(['me', undefined]);
  });

  it('is no end where the registry goes away meanwhile', async () => {
    const { engine, asked } = scripted([EXPIRED, AWAY, undefined]);
    await pullImage(engine, image, { pauseMs: 1, env: loggedIn() });
    expect(asked).toEqual(['me', undefined, 'me']);
  });

  it('is not doubted where the registry is away', async () => {
    const { engine, asked } = scripted([AWAY]);
    await expect(pullImage(engine, image, { pauseMs: 1, env: loggedIn() })).rejects.toThrow(SandboxUnavailable);
    expect(asked).toEqual(['me', 'me', 'me', 'me', 'me']);
  });

  it('does not make the outlook worse than the pull', async () => {
    const { engine } = scripted([EXPIRED, undefined]);
    expect(await imageOutlook(engine, { base: image, cache: folder, env: loggedIn() })).toEqual({
      found: `${image}, at its registry`,
    });
  });
});
