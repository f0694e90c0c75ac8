/**
 * What SWE-bench specifies for repositories that are not in Python. Why: a record of SWE-bench Multilingual or
 * Multimodal does not say how its tests are run, and a wrong command shows other tests than the lists have. Asserted:
 * commands of several languages, Calypso's by file, the programs of an image; what counts before them; that every
 * specified repository has a parser; that an instance whose command nobody knows is refused.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '#setup/paths.mjs';
import { programsOf, specifiedScript } from '../../../tasks/swe-bench/commands/specified.ts';
import { type Instance, instanceSchema } from '../../../tasks/swe-bench/instance.ts';
import { isOfPython, parserOfRepository } from '../../../tasks/swe-bench/parsers/index.ts';

const patchOf = (...paths: string[]): string =>
  paths.map((path) => `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-a\n+b\n`).join('');

const row = (repo: string, version: string, more: Readonly<Record<string, unknown>> = {}) => ({
  instance_id: `${repo.replace('/', '__')}-1`,
  repo,
  version,
  problem_statement: 'text',
  test_patch: patchOf('x.test'),
  FAIL_TO_PASS: ['a'],
  PASS_TO_PASS: [],
  ...more,
});

const read = (...given: Parameters<typeof row>): Instance => instanceSchema(undefined).parse(row(...given));
const script = (...given: Parameters<typeof row>) => specifiedScript(read(...given));

it('has the commands of a repository and its version, and the build before', () => {
  expect(script('jqlang/jq', '2658')).toEqual({
    prepare: [
      'set -uxo pipefail',
      'git submodule update --init',
      'autoreconf -fi',
      './configure --with-oniguruma=builtin',
      'make clean',
      'touch src/parser.y src/lexer.l',
      'make -j$(nproc)',
    ].join('\n'),
    test: 'make check',
  });
  expect(script('google/gson', '2024')?.test.split('\n')).toHaveLength(3);
  expect(script('gin-gonic/gin', '1805')).toEqual({
    prepare: 'set -uxo pipefail',
    test: 'go test -v . -run "^Test.*Router"',
  });
  expect(script('PHPOffice/PhpSpreadsheet', '4313')?.test).toContain('phpunit --testdox');
  expect(script('immutable-js/immutable-js', '2005')?.test).toContain(String.raw`jq -r '.testResults[]`);
  expect(script('processing/p5.js', '1.4')?.test.split('\n')[0]).toContain("'s/concurrency:[[:space:]]*");
});

it("runs Calypso's tests file by file, snapshots by folder", () => {
  const files = ['client/a/test/b.js', 'packages/c/test/__snapshots__/d.js.snap', 'test/e2e/specs/e.js', 'README.md'];
  const of = (version: string) =>
    script('Automattic/wp-calypso', version, { test_patch: patchOf(...files) })?.test.split('\n');
  expect(of('10.16.3')).toEqual([
    "./node_modules/.bin/jest --verbose -c=test/client/jest.config.js 'client/a/test/b.js'",
    "./node_modules/.bin/jest --verbose -c=test/packages/jest.config.js 'packages/c/test'",
    'cd test/e2e',
    'NODE_CONFIG_ENV=test npm run test test/e2e/specs/e.js',
    'cd ../..',
  ]);
  expect(of('8.9.4')?.[0]).toContain('test/client/jest.config.json');
  expect(of('4.2.3')?.[0]).toBe("npm run test-client --verbose 'client/a/test/b.js'");
});

it("knows where images have a language's programs", () => {
  const path = (repo: string, version: string) => programsOf({ repo, version })?.path;
  expect(path('caddyserver/caddy', '6411')).toEqual(['/usr/local/go/bin']);
  expect(path('markedjs/marked', '5.0')).toEqual(['/usr/local/pnpm', '/usr/local/nvm/versions/node/v20.16.0/bin']);
  expect(path('Automattic/wp-calypso', '6.9.1')?.[1]).toBe('/usr/local/nvm/versions/node/v6.9.1/bin');
  expect(programsOf({ repo: 'axios/axios', version: '5085' })?.path).toEqual([]);
  expect(programsOf({ repo: 'Tokio-rs/Axum', version: '' })?.env).toMatchObject({ CARGO_HOME: '/usr/local/cargo' });
  expect(programsOf({ repo: 'django/django', version: '3.2' })).toBeUndefined();
});

it('has a parser for every repository, and no version twice', () => {
  const text = readFileSync(join(packageRoot, 'tasks/swe-bench/commands/test-commands.json'), 'utf8');
  const all = Object.entries(JSON.parse(text) as Record<string, { commands: Array<{ versions: string[] }> }>);
  const pairs = all.flatMap(([repo, { commands }]) =>
    commands.flatMap(({ versions }) => versions.map((version) => [repo, version] as const)),
  );
  expect(pairs).toHaveLength(389);
  expect(new Set(pairs.map((pair) => pair.join(' '))).size).toBe(389);
  for (const [repo] of all) expect(isOfPython(parserOfRepository(repo)), repo).toBe(false);
  for (const [repo, version] of pairs) expect(script(repo, version)?.test, `${repo} ${version}`).toBeDefined();
});

it('refuses an instance whose command nobody knows', () => {
  const fault = (given: Parameters<typeof row>, options: Parameters<typeof instanceSchema>[1] = {}) => {
    const { error } = instanceSchema(undefined, options).safeParse(row(...given));
    return error && `${error.issues[0]?.path.join('.')}: ${error.issues[0]?.message}`;
  };
  const unknown = 'version: SWE-bench specifies no tests of redis/redis 1: give test_cmd or eval_script, or set the';
  expect(fault(['redis/redis', '1'])).toContain(unknown);
  expect(fault(['eslint/eslint', ''])).toContain('no tests of eslint/eslint without a version');
  expect(fault(['owner/other', '1', { log_parser: 'parse_log_gotest' }])).toContain('no tests of owner/other 1');
  for (const says of [{ test_cmd: 'make' }, { eval_script: 'x' }])
    expect(fault(['redis/redis', '1', says])).toBeUndefined();
  expect(fault(['redis/redis', '1'], { testCommand: 'make' })).toBeUndefined();
  expect(fault(['owner/other', '1'])).toBeUndefined();
});
