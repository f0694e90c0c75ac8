/** Hunts example folders whose solution does not score 1, or in which an agent that does nothing scores more than 0. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';

const home = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-harbor-examples-')));
afterAll(() => rmSync(home, { recursive: true, force: true }));

it('examples/tasks/harbor.yaml: known solutions score 1 and empty answers 0, in one step and in two', async () => {
  let [out, err] = ['', ''];
  const code = await runCommandLine(['check', 'examples/tasks/harbor.yaml', '--oracle', '--json'], {
    out: (said) => void (out += said),
    err: (said) => void (err += said),
    env: { ...process.env, LONGHAUL_HOME: join(home, '.longhaul'), LONGHAUL_SANDBOX: 'bubblewrap' },
    cwd: join(import.meta.dirname, '../../..'),
    signal: new AbortController().signal,
  });
  expect(JSON.parse(out), err).toMatchObject({
    sources: [{ source: 'harbor', bad: 0 }],
    graders: {
      withoutOracle: 0,
      wrong: [],
      policies: [
        { policy: 'oracle', rollouts: 2, right: 2 },
        { policy: 'empty', rollouts: 2, right: 2 },
      ],
    },
  });
  expect(code).toBe(0);
}, 180_000);
