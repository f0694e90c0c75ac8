/** Hunts servers that are open to other machines without a key, that serve a broken policy, and that do not end. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { runCommandLine } from '../../../cli/run.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-serve-'));
afterAll(() => rmSync(dir, { recursive: true }));

async function serve(
  args: string[],
  { env = {}, onNote }: { env?: Record<string, string>; onNote?: (line: string, end: () => void) => void } = {},
) {
  let out = '';
  const end = new AbortController();
  const err = (text: string) => onNote?.(text, () => end.abort());
  const exitCode = await runCommandLine(['serve', ...args, '--json'], {
    out: (text) => {
      out += text;
    },
    err,
    env: { ...process.env, ...env },
    cwd: dir,
    signal: end.signal,
  });
  return { exitCode, document: JSON.parse(out) as { error?: Record<string, unknown> } & Record<string, unknown> };
}

it.each([
  [['--model', 'starter', '--tinker', '--timeout-seconds', '9'], '--timeout-seconds'],
  [['--model', 'starter', '--tinker', '--host', '0.0.0.0'], '--host'],
  [['--model', 'starter', '--max-models', '9'], '--max-models'],
  [[], '--model'],
  [['--model', 'nowhere'], '--model'],
  [['--model', 'starter', '--port', '80000'], '--port'],
  [['--model', 'starter', '--timeout-seconds', '0'], '--timeout-seconds'],
  [['--model', 'starter', '--host', '0.0.0.0'], '--host'],
  [['--model', 'starter', '--api-key-env', 'LONGHAUL_NO_SUCH_KEY'], '--api-key-env'],
])('%j is refused by %s before anything is loaded', async (args, field) => {
  expect(await serve(args)).toMatchObject({
    exitCode: 2,
    document: { error: { field, remedy: expect.any(String) as string } },
  });
});

it('prints its address, answers with its key only, and ends when it is stopped', async () => {
  let told = '';
  let asked: Promise<number[]> | undefined;
  const onNote = (line: string, end: () => void) => {
    told += line;
    const address = /(http:\S+)\/v1/.exec(told)?.[1];
    if (!address || asked) return;
    const ask = async (headers: Record<string, string>) => (await fetch(`${address}/v1/models`, { headers })).status;
    asked = Promise.all([
      ask({}),
      ask({ authorization: 'Bearer sk-here' }),
      fetch(`${address}/health`).then(({ status }) => status),
    ]).finally(end);
  };
  const { exitCode, document } = await serve(
    ['--model', 'starter', '--served-name', 'mine', '--port', '0', '--api-key-env', 'SERVE_KEY'],
    { env: { SERVE_KEY: 'sk-here' }, onNote },
  );
  expect(await asked).toEqual([401, 200, 200]);
  expect([exitCode, document]).toMatchObject([0, { model: 'mine', requests: 3 }]);
  expect(told).not.toContain('sk-here');
});

it('fails on a port in use before it loads anything, with a remedy', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  let told = '';
  // A policy that the engine could not load.
  const broken = join(dir, 'broken');
  cpSync(join(packageRoot, 'examples', 'starter'), broken, { recursive: true });
  writeFileSync(join(broken, 'model.safetensors'), '');
  const args = ['--model', broken, '--port', String(port)];
  const taken = await serve(args, { onNote: (line) => (told += line) });
  expect(taken).toMatchObject({
    exitCode: 2,
    document: { error: { field: '--port', remedy: expect.stringContaining('stop that process') as string } },
  });
  expect(JSON.stringify(taken.document)).toContain(String(port));
  expect(told).not.toContain('loading');
  await new Promise((resolve) => other.close(resolve));
  expect(await serve(args)).toMatchObject({ exitCode: 2, document: { error: { field: '--model' } } });
});
