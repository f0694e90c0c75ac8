/**
 * Hunts a store that is not the one that was named: an unknown scheme that falls back to a file, a path that depends on
 * where a command runs, and a command that reads another store than the workers write.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ownEnvironment } from '../../chaos/stage.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { type StackState, writeStackState } from '../../connection/stack-state.ts';
import { storeUrl, storeUrlOf } from '../../connection/store-url.ts';
import { openStore, sqliteUrl, storeExists, storeFolder, storeUrlFrom } from '../../store/open-store.ts';
import { readWorkerSettings } from '../../workers/settings.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-open-store-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

describe('a URL', () => {
  it('opens the store at its place, which exists from then on', async () => {
    const url = sqliteUrl(join(dir, 'a', 'store'));
    expect([await storeExists(url), storeFolder(url)]).toEqual([false, join(dir, 'a', 'store')]);
    const store = await openStore(url);
    await store.putOnce('k', 1);
    await store.close();
    expect(await storeExists(url)).toBe(true);
    const again = await openStore(storeUrlFrom('sqlite:a/store', dir));
    expect(await again.get('k')).toBe(1);
    await again.close();
  });

  it.each(['postgres://host/db', 'store', '/tmp/store', 'sqlite:', ''])(
    'is refused as %j, with the known ones, and nothing is made',
    async (url) => {
      const refusal = { name: 'UserInputError', message: expect.stringContaining('sqlite:PLACE') as string };
      await expect(openStore(url)).rejects.toMatchObject(refusal);
      await expect(storeExists(url)).rejects.toMatchObject(refusal);
      expect(() => storeUrlFrom(url, dir)).toThrow(expect.objectContaining(refusal));
      expect(readdirSync(dir)).toEqual([]);
    },
  );
});

describe('the store of a folder', () => {
  const state = (settings: Record<string, string>): StackState => ({
    format: 1,
    supervisor: { pid: 1, startTime: '1' } as unknown as StackState['supervisor'],
    since: '2026-01-01T00:00:00.000Z',
    address: '',
    namespace: 'default',
    ui: '',
    phase: 'up',
    settings,
    processes: [],
  });

  it('is in the folder, unless LONGHAUL_STORE names another', () => {
    expect(storeUrlOf({ LONGHAUL_HOME: join(dir, 'home') })).toBe(`sqlite:${join(dir, 'home', 'store')}`);
    const env = { LONGHAUL_HOME: join(dir, 'home'), LONGHAUL_STORE: 'sqlite:elsewhere' };
    expect(storeUrlOf(env, dir)).toBe(`sqlite:${join(dir, 'elsewhere')}`);
    expect(storeUrlOf({ ...env, LONGHAUL_STORE: '' }, dir)).toBe(`sqlite:${join(dir, 'home', 'store')}`);
    expect(readWorkerSettings({ ...env, LONGHAUL_STORE: 'sqlite:/x/y' }).store).toBe('sqlite:/x/y');
  });

  it('is the one that the stack was started with, for a command that names none', () => {
    mkdirSync(join(dir, 'home'));
    writeStackState(stackPaths(join(dir, 'home')).state, state({ LONGHAUL_STORE: 'sqlite:/of/the/stack' }));
    expect(storeUrl(join(dir, 'home'), {})).toBe('sqlite:/of/the/stack');
    expect(storeUrl(join(dir, 'home'), { LONGHAUL_STORE: 'sqlite:/named' })).toBe('sqlite:/named');
  });

  it("is never the caller's for a stack of a benchmark or of chaos", () => {
    const env = ownEnvironment({ LONGHAUL_STORE: 'sqlite:/of/the/user' }, join(dir, 'own'));
    expect(storeUrlOf(env)).toBe(`sqlite:${join(dir, 'own', '.longhaul', 'store')}`);
    expect(existsSync(join(dir, 'own', '.longhaul'))).toBe(false);
  });
});
