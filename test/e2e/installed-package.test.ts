/**
 * Hunts a package that works in a clone alone: packed, installed in an empty project by npm and nothing else, imported,
 * type-checked, set up there and run there.
 */

import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import * as library from '../../client/index.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import type { CliResult } from '../support/cli.ts';
import { packAndInstall } from '../support/package.ts';
import { startRefusingServer } from '../support/refusing-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-installed-'));
const { LONGHAUL_HOME: _home, TEMPORAL_ADDRESS: _address, ...inherited } = process.env;
let own = '';
let project = '';

beforeAll(async () => {
  own = await packAndInstall(dir);
  project = dirname(dirname(own));
}, 900_000);
afterAll(async () => {
  await longhaul(['down']);
  rmSync(dir, { recursive: true, force: true });
});

function node(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      args,
      { cwd: project, env: { ...inherited, ...env }, timeout: 550_000, maxBuffer: 1 << 26 },
      (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
      },
    );
  });
}

const longhaul = (args: readonly string[], env?: NodeJS.ProcessEnv) =>
  node([join(own, 'bin', 'longhaul.mjs'), ...args], env);
/** A cache without an engine, as a new user's is. */
const EMPTY = { LONGHAUL_CACHE: join(dir, 'empty-cache') };

it('npm brings no engine along, and no lock file', () => {
  expect(existsSync(join(project, 'node_modules', '@tensorflow'))).toBe(false);
  expect(existsSync(join(own, 'package-lock.json'))).toBe(false);
});

it('the library is imported from JavaScript and TypeScript, has every name, and loads no engine, Docker or native core', async () => {
  const server = await startRefusingServer();
  const program = `import * as longhaul from 'longhaul';
import { createRequire } from 'node:module';
const loaded = Object.keys(createRequire(import.meta.url).cache).filter((path) => /tfjs|dockerode|core-bridge|@temporalio.worker/.test(path));
const failed = await longhaul.Longhaul.connect({ address: '${server.address}' }).catch((error) => error.message);
process.stdout.write(JSON.stringify({ names: Object.keys(longhaul).sort(), loaded, failed }));
process.exit(0);
`;
  for (const name of ['program.mjs', 'program.ts']) {
    writeFileSync(join(project, name), program);
    const { code, stdout, stderr } = await node([name], EMPTY);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      names: Object.keys(library).toSorted(),
      loaded: [],
      failed: expect.stringContaining(server.address),
    });
  }
  await server.stop();
});

it("a program of somebody's type-checks, the library's declarations with it", async () => {
  writeFileSync(
    join(project, 'typed.ts'),
    "import { Longhaul, type RunSettings } from 'longhaul';\nconst steps: RunSettings['steps'] = 3;\nexport const run = async () => (await (await Longhaul.connect()).run('a').status()).step + (steps ?? 0);\n",
  );
  const types = join(packageRoot, 'node_modules', '@types');
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    'false',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'es2024',
    '--types',
    'node',
    '--typeRoots',
    types,
  ];
  const { code, stdout } = await node([
    join(packageRoot, 'node_modules', 'typescript', 'bin', 'tsc'),
    ...options,
    'typed.ts',
  ]);
  // Temporal's own declarations want types of `ms` that its users add, or leave out with skipLibCheck.
  const ours = stdout
    .split('\n')
    .filter((line) => line.includes('error') && !line.startsWith('node_modules/@temporalio/'));
  // TypeScript 7 exits with 1 where it has found anything, 0 otherwise.
  expect([ours, code]).toEqual([[], stdout.includes('error TS') ? 1 : 0]);
});

it('before the set-up, what needs it says the command; after it, here too, a run trains', async () => {
  for (const args of [
    ['up', '--detach'],
    ['serve', '--model', 'starter', '--port', '0'],
  ]) {
    const { code, stderr } = await longhaul(args, EMPTY);
    expect([code, stderr]).toEqual([3, expect.stringContaining('npx longhaul setup')]);
  }
  const { code, stdout, stderr } = await longhaul(['setup', '--json']);
  expect(code, stderr).toBe(0);
  expect((JSON.parse(stdout) as { steps: Array<{ name: string }> }).steps.map(({ name }) => name)).toContain(
    'engine package',
  );
  expect((await longhaul(['doctor'])).stdout).toContain('everything required is here');
  writeFileSync(
    join(project, 'run.yaml'),
    `task: { name: swe-mini }\npolicy: { base: ${join(own, 'examples', 'starter')} }\nsteps: 1\nbatch: { tasks: 2, samples: 2 }\nagent: { maxTurns: 2 }\nevaluation: { tasks: 2, greedy: false }\n`,
  );
  const planned = await longhaul(['train', 'run.yaml', '--dry-run']);
  expect(planned.code, planned.stderr).toBe(0);
  const trained = await longhaul(['train', 'run.yaml']);
  expect(trained.code, trained.stderr).toBe(0);
  expect(JSON.parse(readFileSync(join(project, 'runs', 'run', 'summary.json'), 'utf8'))).toMatchObject({
    status: 'completed',
  });
}, 1_500_000);
