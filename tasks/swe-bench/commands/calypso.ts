/** How Calypso's tests are run: a command for each file of the test patch, by the folder that it is in. */

import { quoteForShell } from '../../../agents/tools/search.ts';
import type { Instance } from '../instance.ts';
import { sectionsOf } from '../patch.ts';

/** Versions (of Node) whose tests Jest runs, by the form of its configuration. The others have a script of npm. */
const IN_JS: ReadonlySet<string> = new Set(['10.10.0', '10.12.0', '10.13.0', '10.14.0', '10.15.2', '10.16.3']);
const IN_JSON: ReadonlySet<string> = new Set([
  '6.11.5',
  '8.9.1',
  '8.9.3',
  '8.9.4',
  '8.11.0',
  '8.11.2',
  '10.4.1',
  '10.5.0',
  '10.6.0',
  '10.9.0',
]);

/** A snapshot stands for the folder of its tests. */
const testOf = (path: string): string =>
  /__snapshots__\/.*.js.snap$/u.test(path) ? path.split('/').slice(0, -2).join('/') : path;

function commandsFor(test: string, version: string): string[] {
  const [folder = ''] = /^(?:client|packages)/u.test(test) ? test.split('/') : [];
  if (folder === '')
    return test.startsWith('test/e2e') ? ['cd test/e2e', `NODE_CONFIG_ENV=test npm run test ${test}`, 'cd ../..'] : [];
  const form = IN_JS.has(version) ? 'js' : IN_JSON.has(version) ? 'json' : undefined;
  return form === undefined
    ? [`npm run test-${folder} --verbose ${quoteForShell(test)}`]
    : [`./node_modules/.bin/jest --verbose -c=test/${folder}/jest.config.${form} ${quoteForShell(test)}`];
}

export function calypsoCommands({ testPatch, version }: Pick<Instance, 'testPatch' | 'version'>): string[] {
  const paths = sectionsOf(testPatch).map(({ path }) => path);
  return paths.flatMap((path) => commandsFor(testOf(path), version));
}
