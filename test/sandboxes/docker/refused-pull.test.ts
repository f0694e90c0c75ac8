/**
 * Hunts rejections of a registry that are handled as if it did not answer, so that a start waits in vain and does not
 * mention `docker login`; and an expired login that prevents the pull of public images. The daemon is scripted, with
 * real texts; not asserted: that a daemon uses them (`credentials.test.ts` uses a real one).
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

/** Answers requests with `answers` in order, then always with the last; `undefined`: the image. */
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

describe('an answer of a registry', () => {
  it.each([
    EXPIRED,
    http(500, 'Head "https://registry.example/v2/a/manifests/1": 403 Forbidden'),
    new DaemonRefused('denied: User: arn:aws:sts::1:x is not authorized to perform: ecr:BatchGetImage'),
    new DaemonRefused(
      'error parsing HTTP 403 response body: denied: Permission "downloadArtifacts" denied on resource',
    ),
    new DaemonRefused("pull access denied for a/b, repository does not exist or may require 'docker login'"),
  ])('is final if it rejects the credentials: %s', async (refusal) => {
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
  ])('is not final if a retry may succeed: %s', (error) => expect(isFinal(error)).toBe(false));
});

describe('a rejected login', () => {
  it('does not prevent the pull of a public image, and is reported', async () => {
    const heard: string[] = [];
    const { engine, asked } = scripted([EXPIRED, undefined]);
    await pullImage(engine, image, { pauseMs: 1, env: loggedIn(), onProgress: (line) => heard.push(line) });
    expect(asked).toEqual(['me', undefined]);
    expect(heard[0]).toMatch(
      /ghcr\.io rejects the credentials of docker login \(.*denied: denied\); retrying without them/u,
    );
  });

  it('is the reported error, once, if the pull without it fails too', async () => {
    const { engine, asked } = scripted([EXPIRED, PRIVATE]);
    const pulled = pullImage(engine, image, { pauseMs: 1, env: loggedIn() });
    await expect(pulled).rejects.toThrow(
      /denied: denied; log in where the init worker runs \(docker login ghcr\.io\)/u,
    );
    expect(asked).toEqual(['me', undefined]);
  });

  it('is not final if the registry stops answering meanwhile', async () => {
    const { engine, asked } = scripted([EXPIRED, AWAY, undefined]);
    await pullImage(engine, image, { pauseMs: 1, env: loggedIn() });
    expect(asked).toEqual(['me', undefined, 'me']);
  });

  it('is not assumed if the registry does not answer', async () => {
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
