/** Hunts policies that are mistaken for the policies that were in their directory before. */
import { copyFileSync, linkSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { fingerprintOf, MadeOfFiles } from '../../../trainer/checkpoints/policy-files.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-policy-files-'));
  mkdirSync(join(dir, 'policy'));
  write('model.safetensors', 'weights');
  write('config.json', '{}');
});
afterEach(() => rmSync(dir, { recursive: true }));
const policy = () => join(dir, 'policy');
const write = (name: string, text: string) => writeFileSync(join(dir, 'policy', name), text);

it('a policy is identified by its files: copies and links are the same policy, records and moments do not matter', async () => {
  const before = await fingerprintOf(policy());
  const copy = join(dir, 'copy');
  mkdirSync(copy);
  copyFileSync(join(policy(), 'config.json'), join(copy, 'config.json'));
  linkSync(join(policy(), 'model.safetensors'), join(copy, 'model.safetensors'));
  expect(await fingerprintOf(copy)).toBe(before);
  write('longhaul.json', '{}');
  write('optimizer.safetensors', 'moments');
  expect(await fingerprintOf(policy())).toBe(before);
  write('model.safetensors', 'Weights');
  expect(await fingerprintOf(policy())).not.toBe(before);
});

it('a value made from a directory is kept while its files do not change, and made again if one does', async () => {
  let made = 0;
  const cache = new MadeOfFiles(async (of) => {
    made += 1;
    return fingerprintOf(of);
  }, 2);
  const first = await cache.of(policy());
  expect([await cache.of(policy()), made]).toEqual([first, 1]);
  // The same length as before, a moment later.
  write('model.safetensors', 'WEIGHTS');
  utimesSync(join(policy(), 'model.safetensors'), 1, 1);
  const second = await cache.of(policy());
  expect([second === first, made]).toEqual([false, 2]);
  write('tokenizer.json', '{}');
  expect([(await cache.of(policy())) === second, made]).toEqual([false, 3]);
});

it('a failure is thrown and not kept, and the directory that was used least recently is dropped first', async () => {
  let failing = true;
  const made: string[] = [];
  const cache = new MadeOfFiles(async (of) => {
    made.push(of);
    if (failing) throw new Error('half written');
    return of;
  }, 2);
  await expect(cache.of(policy())).rejects.toThrow('half written');
  failing = false;
  expect(await cache.of(policy())).toBe(policy());
  const [b, c] = [join(dir, 'b'), join(dir, 'c')];
  for (const one of [b, c]) mkdirSync(one);
  for (const one of [b, policy(), c, policy(), b]) await cache.of(one);
  expect(made.slice(1)).toEqual([policy(), b, c, b]);
  await expect(cache.of(join(dir, 'nowhere'))).rejects.toMatchObject({ code: 'ENOENT' });
});
