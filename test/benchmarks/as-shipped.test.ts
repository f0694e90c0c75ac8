/** Hunts a bench whose workflows run slower than the stack's, and one that loses its arguments at the restart. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-as-shipped-'));
afterAll(() => rmSync(dir, { recursive: true }));

const module = new URL('../../benchmarks/as-shipped.ts', import.meta.url).href;
const program = join(dir, 'program.mjs');
writeFileSync(
  program,
  `import { goOnAsShipped } from '${module}';
  import v8 from 'node:v8';
  import { isMainThread, Worker } from 'node:worker_threads';
  if (isMainThread) {
    const signal = process.env.INTERRUPTED === '1' ? AbortSignal.abort(new Error('interrupted')) : new AbortController().signal;
    await goOnAsShipped(signal);
    console.log(process.argv.slice(2).join(' '), process.execArgv.includes('--no-warnings'));
    new Worker(new URL(import.meta.url));
  } else {
    let made = 0;
    const stop = v8.promiseHooks.createHook({ init: () => { made += 1; } });
    Promise.resolve();
    stop();
    console.log('hooks', made > 0);
  }`,
);

const runWith = (env: NodeJS.ProcessEnv) =>
  spawnSync(process.execPath, ['--no-warnings', program, 'bench', '--json'], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, ...env },
  });

it('goes on once, with its arguments, and without call stacks in its threads', () => {
  expect(runWith({ LONGHAUL_CALL_STACKS: '' })).toMatchObject({
    status: 0,
    stdout: 'bench --json true\nhooks false\n',
  });
});

it('stays as it is where call stacks are asked for', () => {
  expect(runWith({ LONGHAUL_CALL_STACKS: '1' })).toMatchObject({
    status: 0,
    stdout: 'bench --json true\nhooks true\n',
  });
});

it('ends where it was interrupted before it could go on', () => {
  const { status, stdout, stderr } = runWith({ LONGHAUL_CALL_STACKS: '', INTERRUPTED: '1' });
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain('interrupted');
});
