/** What the input of a workflow may name on a machine of the workers, and who may send one. */

import type { Mutation } from '../mutation.ts';

const INPUT = "a workflow's input names a key, an address, a folder or a module that its workers were not given";
const PAGE = "a web page sends requests to the stack's ports";
const SECRET = "a tool's answer or error has a secret of its worker";
const EFFECTS_TEST = 'test/activities/agent-run/tool-effects.test.ts';
const ARGUMENTS_TEST = 'test/agents/tools/schema/arguments.test.ts';
const ADDRESSES_TEST = 'test/endpoints/allowed-addresses.test.ts';
const GUARD_TEST = 'test/workers/allowed/guard.test.ts';
const BUNDLES_TEST = 'test/workers/allowed/module-places.test.ts';
const IMPORT_TEST = 'test/modules/import-bundle.test.ts';
const DOOR_TEST = 'test/stack/ui-proxy.test.ts';
const HTTP_TEST = 'test/stack/temporal-server/closed-http.test.ts';

export const inputs: readonly Mutation[] = [
  {
    name: 'any file is read as a module',
    fault: INPUT,
    file: 'workers/allowed/module-places.ts',
    before: 'if (isListed(path) ||',
    after: "if (path !== '' ||",
    tests: [{ file: BUNDLES_TEST, test: 'a module that nobody allowed is not even read' }],
  },
  {
    name: 'an allowed path allows what it becomes',
    fault: INPUT,
    file: 'workers/allowed/module-places.ts',
    before: 'if (wordsOf(home).bundles.some((word) => word.digest === digest)) return;',
    after: 'if (wordsOf(home).bundles.some((word) => word.digest !== digest || word.digest === digest)) return;',
    tests: [{ file: BUNDLES_TEST, test: 'a bundle that the command line allowed runs, and no other one' }],
  },
  {
    name: 'any object of the store runs as a bundle',
    fault: INPUT,
    file: 'modules/import-bundle.ts',
    before: 'if (record === undefined) throw new ModulesUnknown(digest);\n',
    after: '',
    tests: [{ file: IMPORT_TEST, test: 'an object of the store runs only if' }],
  },
  {
    name: 'a secret of a tool is recorded with its answer',
    fault: SECRET,
    file: 'activities/agent-run/run-in-worker.ts',
    before: 'content: secrets.redact(content)',
    after: 'content',
    tests: [{ file: EFFECTS_TEST, test: 'reach a tool by name, and neither a record nor an error' }],
  },
  {
    name: 'any variable is a secret that tools may have',
    fault: SECRET,
    file: 'activities/agent-run/secrets.ts',
    before: 'if (!this.#values.has(name))',
    after: "if (name === '')",
    tests: [{ file: EFFECTS_TEST, test: 'that are not allowed or not set are an error that names OTHER' }],
  },
  {
    name: 'a regular expression of a schema is run on what a policy wrote',
    fault: "a tool's schema takes time without a limit to check",
    file: 'agents/tools/schema/json-schema.ts',
    before: "if (schema['pattern'] !== undefined || schema['patternProperties'] !== undefined)",
    after: "if (schema['patternProperties'] !== undefined)",
    tests: [{ file: ARGUMENTS_TEST, test: 'a regular expression is refused when a tool is defined' }],
  },
  {
    name: 'a listed key goes to any address',
    fault: INPUT,
    file: 'endpoints/permissions.ts',
    before: 'one.name === apiKeyEnv && covers(one, url)',
    after: 'one.name === apiKeyEnv',
    tests: [
      {
        file: ADDRESSES_TEST,
        test: 'that is on no list, or on it for another address, is not sent, and nothing is asked',
      },
    ],
  },
  {
    name: 'any variable is a key',
    fault: INPUT,
    file: 'endpoints/permissions.ts',
    before: 'if (!this.#keys.some(',
    after: 'if (this.#keys.length > 99 && !this.#keys.some(',
    tests: [
      {
        file: ADDRESSES_TEST,
        test: 'that is on no list, or on it for another address, is not sent, and nothing is asked',
      },
    ],
  },
  {
    name: 'a metadata service is an endpoint',
    fault: INPUT,
    file: 'endpoints/exchange-bytes.ts',
    before: 'if (!isNamed) checkHost(target);\n',
    after: '',
    tests: [{ file: ADDRESSES_TEST, test: 'that is no endpoint is never asked' }],
  },
  {
    name: 'links lead out of the places',
    fault: INPUT,
    file: 'workers/allowed/places.ts',
    before: 'isAllowed(places, access, realPath(resolve(path)))',
    after: 'isAllowed(places, access, resolve(path))',
    tests: [{ file: GUARD_TEST, test: 'is looked at behind its links, and an adapter at its base' }],
  },
  {
    name: 'runs are written wherever policies are read',
    fault: INPUT,
    file: 'workers/allowed/places.ts',
    before: "if (access === 'read') return",
    after: 'if (access !== undefined) return',
    tests: [
      {
        file: GUARD_TEST,
        test: 'lies in the project, in what is not hidden there, or in a place that was named for it',
      },
    ],
  },
  {
    name: 'a folder of modules allows every other one',
    fault: INPUT,
    file: 'workers/allowed/module-places.ts',
    before: 'if (paths.every(isListed)) return;',
    after: 'if (places.length > 0) return;',
    tests: [{ file: BUNDLES_TEST, test: 'of a listed folder runs as it is at that moment' }],
  },
  {
    name: 'a worker of a stack looks at nothing',
    fault: INPUT,
    file: 'workers/run-worker.ts',
    before: '[logsAbout, ...(inbound ? [() => ({ inbound })] : []), guardPlaces(readPlaces())]',
    after: '[logsAbout, ...(inbound ? [() => ({ inbound })] : [guardPlaces(readPlaces())])]',
    tests: [
      { file: GUARD_TEST, test: 'of a stack, which watches whose server it works for looks at what an input names' },
    ],
  },
  {
    name: 'a step is any text',
    fault: INPUT,
    file: 'workers/allowed/guard.ts',
    before: 'broken !== undefined',
    after: "broken?.field === ''",
    tests: [{ file: GUARD_TEST, test: 'has numbers where numbers are parts of paths' }],
  },
  {
    name: 'the HTTP API answers web pages',
    fault: PAGE,
    file: 'stack/temporal-server/server-arguments.ts',
    before: "'frontend.httpAllowedHosts': ['closed/'],",
    after: "'frontend.httpAllowedHosts': ['*'],",
    tests: [{ file: HTTP_TEST, test: 'a foreign page starts no workflow by the HTTP API, and reads none' }],
  },
  {
    name: 'the UI answers a name that was resolved anew',
    fault: PAGE,
    file: 'stack/ui-proxy.ts',
    before: 'if (!LOOPBACK.test(host)) return',
    after: 'if (host === undefined) return',
    tests: [{ file: DOOR_TEST, test: 'such a name with the port reads nothing and starts nothing' }],
  },
  {
    name: 'the UI answers pages of other origins',
    fault: PAGE,
    file: 'stack/ui-proxy.ts',
    before: 'if (origin !== undefined && ',
    after: "if (origin === '' && ",
    tests: [{ file: DOOR_TEST, test: 'another site reads nothing and starts nothing' }],
  },
  {
    name: 'a request within a request reaches the UI',
    fault: PAGE,
    file: 'stack/ui-proxy.ts',
    before: "else if (asked.headers['transfer-encoding'] !== undefined) end(",
    after: "else if (asked.headers['transfer-encoding'] === 'identity') end(",
    tests: [{ file: DOOR_TEST, test: 'a request within a request, which nobody would look at, does not pass' }],
  },
  {
    name: 'an adapter of a hub leads to any folder',
    fault: INPUT,
    file: 'trainer/hub/resolve-model.ts',
    before: '  await refuseFolder(id, hubCache(options.env), snapshot);\n',
    after: '',
    tests: [
      {
        file: 'test/trainer/hub/resolve-model.test.ts',
        test: 'an adapter whose base is a folder of this machine is refused, also from the cache',
      },
    ],
  },
];
