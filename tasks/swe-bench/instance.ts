/**
 * A record of SWE-bench and its relatives, in one form: SWE-bench (also Lite, Verified, Multimodal), SWE-Gym,
 * SWE-smith, R2E-Gym, and rows that nest such a record under `instance`. Lists of tests may be JSON texts.
 */

import { z } from 'zod';
import { assetPaths } from './assets.ts';
import { specifiedScript } from './commands/specified.ts';
import type { Options } from './options.ts';
import { isOfPython, parserOfRepository, unknownParser } from './parsers/index.ts';
import { isTestFile, pathsOf, sectionsOf } from './patch.ts';

export const SOURCES = ['swe-bench', 'swe-gym', 'swe-smith', 'r2e-gym'] as const;
/** A family of records: it decides about images, the workspace, and how a run of the tests is judged. */
export type Source = (typeof SOURCES)[number];

export interface Instance {
  readonly id: string;
  readonly source: Source;
  /** `owner/name`. */
  readonly repo: string;
  readonly version: string;
  readonly baseCommit: string | undefined;
  readonly problem: string;
  readonly hints: string;
  /** What solves the task. Absent: it is not known. */
  readonly gold: { readonly patch: string; readonly reverse: boolean } | undefined;
  /** A patch that brings the bug into the repository (SWE-smith). Absent: the repository has it. */
  readonly bug: string | undefined;
  /** What adds the hidden tests. May be empty. */
  readonly testPatch: string;
  /** Paths of the files that tests need and `testPatch` cannot carry. */
  readonly assets: readonly string[];
  readonly failToPass: readonly string[];
  readonly passToPass: readonly string[];
  /** Expected status of each test, by name (R2E-Gym). */
  readonly expected: Readonly<Record<string, string>> | undefined;
  readonly image: string | undefined;
  /** A script that installs, applies `testPatch` and runs the tests (SWE-bench 5); or the two halves of one (NeMo). */
  readonly evalScript: string | { readonly prepare: string; readonly test: string } | undefined;
  readonly testCommand: string | undefined;
  readonly logParser: string | undefined;
  readonly evalType: 'pass_and_fail' | 'fail_only' | undefined;
}

const text = z.string();
const given = text.nullish().transform((value) => (value === null || value === '' ? undefined : value));

/** A list of texts, or the JSON of one. */
const names = z.union([z.array(text), text]).transform((value, ctx): string[] => {
  if (typeof value !== 'string') return value;
  if (value.trim() === '') return [];
  try {
    return z.array(text).parse(JSON.parse(value));
  } catch {
    ctx.addIssue({ code: 'custom', message: 'give a list of test names, or the JSON text of one' });
    return z.NEVER;
  }
});

const statuses = z.union([z.record(text, text), text]).transform((value, ctx): Record<string, string> => {
  if (typeof value !== 'string') return value;
  try {
    return z.record(text, text).parse(JSON.parse(value));
  } catch {
    ctx.addIssue({ code: 'custom', message: 'give an object of test names and statuses, or its JSON text' });
    return z.NEVER;
  }
});

const ID = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$/;
const COMMIT = /^[0-9a-f]{7,64}$/;

const row = z.looseObject({
  instance_id: given,
  repo: given,
  repo_name: given,
  base_commit: given.pipe(text.regex(COMMIT, 'give the hexadecimal digits of a commit').optional()),
  commit_hash: given.pipe(text.regex(COMMIT, 'give the hexadecimal digits of a commit').optional()),
  problem_statement: text.min(1, 'give the text of the issue'),
  hints_text: given,
  version: z.union([given, z.number().transform(String)]),
  patch: given,
  test_patch: given,
  image_assets: assetPaths,
  FAIL_TO_PASS: names.optional(),
  PASS_TO_PASS: names.optional(),
  expected_output_json: statuses.optional(),
  image: given,
  image_name: given,
  docker_image: given,
  eval_script: given,
  setup_script: given,
  test_script: given,
  test_cmd: given,
  log_parser: given,
  eval_type: z.enum(['pass_and_fail', 'fail_only']).nullish(),
  subset: given,
  dataset_name: given,
});

type Row = z.infer<typeof row>;

function sourceOf(row: Row): Source {
  if (row.expected_output_json !== undefined) return 'r2e-gym';
  if (row.repo?.startsWith('swesmith/') || row.image_name?.includes('swesmith')) return 'swe-smith';
  return row.subset === 'gym' || /swe-?gym/iu.test(row.dataset_name ?? '') ? 'swe-gym' : 'swe-bench';
}

/** An image of R2E-Gym is one record's alone, and its id, if it has one, is the image's name. */
function idOf({ instance_id: id, docker_image: image, commit_hash: commit }: Row, source: Source): string | undefined {
  const own = source === 'r2e-gym' ? (id ?? image ?? commit)?.replaceAll(/[^\w.+-]+/gu, '_') : id;
  return own !== undefined && ID.test(own) ? own : undefined;
}

/** `owner__name-123`, SWE-smith's `owner__name.commit.bug` and R2E-Gym's `name` say the repository too. */
function repoOf({ repo, repo_name: short }: Row, id: string): string {
  const named = repo?.startsWith('swesmith/') ? repo.slice('swesmith/'.length).replace('__', '/') : repo;
  const plain = named?.replace(/\.[0-9a-f]{8}$/u, '');
  return plain ?? short ?? id.replace('__', '/').replace(/-\d+$/u, '');
}

function scriptOf({ eval_script: whole, setup_script: prepare, test_script: test }: Row): Instance['evalScript'] {
  if (whole !== undefined) return whole;
  return test === undefined ? undefined : { prepare: prepare ?? '', test };
}

/** Rows of NeMo nest the instance, and may hold it as JSON; what is beside it says where it comes from. */
function flat(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'instance')) return value;
  const { instance, ...beside } = value as { readonly instance: unknown };
  try {
    const inner: unknown = typeof instance === 'string' ? JSON.parse(instance) : instance;
    return typeof inner === 'object' && inner !== null ? { ...beside, ...inner } : value;
  } catch {
    return value;
  }
}

/** The name of the parser of the instance's logs. */
export const parserOf = ({ logParser, source, repo }: Instance): string =>
  logParser ?? (source === 'swe-smith' ? 'pytest_verbose' : parserOfRepository(repo));

/** Why the command of the tests is unknown; `undefined`: it is known, or they are Python's. */
function lacksCommand(one: Instance, parser: string): string | undefined {
  const { evalScript, testCommand, expected, repo, version } = one;
  const says = evalScript !== undefined || testCommand !== undefined || expected !== undefined;
  return says || isOfPython(parser) || specifiedScript(one) !== undefined
    ? undefined
    : `SWE-bench specifies no tests of ${repo} ${version === '' ? 'without a version' : version}: ` +
        'give test_cmd or eval_script, or set the option testCommand';
}

/**
 * Reads a record. `source`: what the records are, if they do not say it themselves. `given`: options that count before
 * what the record says.
 */
export function instanceSchema(
  source: Source | undefined,
  given: Pick<Options, 'logParser' | 'testCommand'> = {},
): z.ZodType<Instance> {
  return z.preprocess(
    flat,
    row.transform((read, ctx): Instance => {
      const kind = source ?? sourceOf(read);
      const id = idOf(read, kind);
      const fail = (field: string, message: string) => {
        ctx.addIssue({ code: 'custom', path: [field], message });
        return z.NEVER;
      };
      if (id === undefined)
        return fail('instance_id', 'give letters, digits, dot, dash, plus and underscore, at most 200');
      const { FAIL_TO_PASS: failToPass = [], PASS_TO_PASS: passToPass = [], expected_output_json: expected } = read;
      if (kind === 'r2e-gym' ? expected === undefined : failToPass.length + passToPass.length === 0)
        return kind === 'r2e-gym'
          ? fail('expected_output_json', 'give the expected status of each test')
          : fail('FAIL_TO_PASS', 'give at least one test: without any, every answer would be right');
      const testPatch = read.test_patch ?? '';
      const { patch } = read;
      if (patch !== undefined && pathsOf(patch).length === 0)
        return fail('patch', 'give a patch of git, with lines that start with "diff --git"');
      const unknown = read.log_parser === undefined ? undefined : unknownParser(read.log_parser);
      if (unknown !== undefined && given.logParser === undefined)
        return fail('log_parser', `${unknown}, or set the option logParser`);
      if (testPatch !== '' && pathsOf(testPatch).length === 0)
        return fail('test_patch', 'give a patch of git, with lines that start with "diff --git"');
      const instance: Instance = {
        id,
        source: kind,
        repo: repoOf(read, id),
        version: read.version ?? '',
        baseCommit: read.base_commit ?? read.commit_hash,
        problem: read.problem_statement,
        hints: read.hints_text ?? '',
        gold: patch === undefined ? undefined : { patch, reverse: kind === 'swe-smith' },
        bug: kind === 'swe-smith' ? patch : undefined,
        testPatch,
        assets: read.image_assets,
        failToPass,
        passToPass,
        expected,
        image:
          read.image ?? read.docker_image ?? read.image_name ?? (kind === 'r2e-gym' ? read.instance_id : undefined),
        evalScript: scriptOf(read),
        testCommand: read.test_cmd,
        logParser: read.log_parser,
        evalType: read.eval_type ?? undefined,
      };
      const parser = given.logParser ?? parserOf(instance);
      const lacking = given.testCommand === undefined ? lacksCommand(instance, parser) : undefined;
      return lacking === undefined ? instance : fail('version', lacking);
    }),
  ) as z.ZodType<Instance>;
}

/** The files that hold the tests to run: those of `testPatch`, else those that the tests' names start with. */
export function testFilesOf({ testPatch, failToPass, passToPass }: Instance): string[] {
  const patched = sectionsOf(testPatch).flatMap(({ path, isDeleted }) => (isDeleted || path === '' ? [] : [path]));
  if (patched.some(isTestFile)) return [...new Set(patched.filter(isTestFile))];
  const named = [...failToPass, ...passToPass].flatMap((name) => /^([^\s:[]+\.\w+)::/u.exec(name)?.[1] ?? []);
  return [...new Set(named)];
}
