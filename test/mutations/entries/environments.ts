/** Tasks and modules that stay what they were, and answers of environments that are given once. */

import type { Mutation } from '../mutation.ts';

const CHANGED = 'the records of a dataset change while a run or an eval works on them';
const KILLED = "a worker is killed between an environment's `step` and its report";
const MODULES = 'a module changes while runs work with it, or two runs have other versions of it';
const MODULES_TEST = 'test/activities/modules.test.ts';
const IMPORT_TEST = 'test/modules/import-bundle.test.ts';
const DEFINITIONS_TEST = 'test/tasks/definitions.test.ts';
const OTHER_TOOLS = 'the packages of an agent in a folder of tools change between two openings of a run or an eval';
const REPL = "a block ends its task's REPL, asks without end, or loses its worker";
const TOOLS_TEST = 'test/activities/orchestrator/tools-of-tasks.test.ts';
const TOOLS_DIGEST_TEST = 'test/sandboxes/tools-digest.test.ts';
const TEXT_ROLLOUTS_TEST = 'test/activities/text-rollouts.test.ts';
const RLM_TEST = 'test/tasks/rlm/rlm.test.ts';

export const environments: readonly Mutation[] = [
  {
    name: 'other records take the place of those that a run started with',
    fault: CHANGED,
    file: 'tasks/task-loader.ts',
    before: 'if (source.digest !== undefined && source.digest !== dataset.digest)',
    after: "if (source.digest === '')",
    tests: [{ file: DEFINITIONS_TEST, test: 'records that have changed since the start are found by digest' }],
  },
  {
    name: 'other packages take the place of those that a run started with',
    fault: OTHER_TOOLS,
    file: 'activities/orchestrator/tools-of-tasks.ts',
    before: 'now[folder] !== began[folder]',
    after: "now[folder] === ''",
    tests: [{ file: TOOLS_TEST, test: 'is refused by name with other packages' }],
  },
  {
    name: 'the lists of package managers do not count',
    fault: OTHER_TOOLS,
    file: 'sandboxes/tools-digest.ts',
    before: 'if (LISTS.has(name)',
    after: "if (name === ''",
    tests: [{ file: TOOLS_DIGEST_TEST, test: 'another hash in pip’s list is another digest' }],
  },
  {
    name: 'a recorded step runs again',
    fault: KILLED,
    file: 'activities/agent-run/agent-run.ts',
    before: 'if (known) return outcomeOf(known);',
    after: 'void known;',
    tests: [{ file: TEXT_ROLLOUTS_TEST, test: 'each message is read once' }],
  },
  {
    name: 'a name means the same part in every run',
    fault: MODULES,
    file: 'modules/registry.ts',
    before: 'const bundled = modules === undefined ? undefined : this.#bundled.get(modules);',
    after: 'const bundled = modules === undefined ? undefined : [...this.#bundled.values()][0];',
    tests: [{ file: IMPORT_TEST, test: 'two bundles with the same names live beside each other' }],
  },
  {
    name: 'what is resumed takes the modules as they are now',
    fault: MODULES,
    file: 'activities/orchestrator/open-modules.ts',
    before: 'if (known !== undefined) {',
    after: "if (known === 'sha256:') {",
    tests: [{ file: MODULES_TEST, test: 'an eval that starts again keeps its digest' }],
  },
  {
    name: 'a damaged file of a bundle runs',
    fault: MODULES,
    file: 'modules/import-bundle.ts',
    before: 'if (there !== undefined && isOf(digest, there)) return file;',
    after: 'if (there !== undefined) return file;',
    tests: [{ file: IMPORT_TEST, test: 'bytes that are not those of the digest never run' }],
  },
  {
    name: 'a block that finds no REPL is lost with it',
    fault: REPL,
    file: 'tasks/rlm/repl.ts',
    before: 'if (first.exitCode !== NOT_RUNNING) return',
    after: 'if (first.exitCode !== -1) return',
    tests: [{ file: RLM_TEST, test: 'that a block has ended starts again' }],
  },
  {
    name: 'a repeated step runs its blocks again',
    fault: REPL,
    file: 'tasks/rlm/repl.ts',
    before: 'return `${this.#ctx.id}/${what}-${this.#calls}`;',
    after: 'return `${this.#ctx.id}/${what}-${this.#calls}-${Date.now()}`;',
    tests: [{ file: RLM_TEST, test: 'in the middle of a block: the block runs once' }],
  },
  {
    name: 'a block asks as many prompts as it likes',
    fault: REPL,
    file: 'tasks/rlm/programs/repl.py',
    before: '        self.queries_left -= len(prompts)\n',
    after: '',
    tests: [{ file: RLM_TEST, test: 'is asked a bounded number of prompts in a turn' }],
  },
];
