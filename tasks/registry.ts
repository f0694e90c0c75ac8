/** The environments by name. */

import { Definition } from '../modules/check-definition.ts';
import { didYouMean } from '../protocol/closest.ts';
import { Registry, UnknownName } from '../modules/registry.ts';
import { JUDGE_NAME } from '../protocol/judge.ts';
import { humaneval } from './code/humaneval.ts';
import { lcb } from './code/lcb.ts';
import { mbpp } from './code/mbpp.ts';
import { computerEnvironment } from './computer/environment.ts';
import type { Environment } from './environment.ts';
import { harbor } from './harbor/environment.ts';
import { aime } from './math/aime.ts';
import { gsm8kMultiTurn } from './math/gsm8k-multi-turn.ts';
import { gsm8k } from './math/gsm8k.ts';
import { math } from './math/math.ts';
import { python } from './python/environment.ts';
import { qa, qaJudged } from './qa/qa.ts';
import { rlmEnvironment } from './rlm/environment.ts';
import { browsecompPlus } from './search/browsecomp-plus.ts';
import { memoryEnvironment } from './search/memory.ts';
import { searchEnvironment } from './search/search.ts';
import { searchcodeEnvironment } from './search/searchcode.ts';
import { text2sql } from './sql/environment.ts';
import { text2sqlMini } from './sql/mini/environment.ts';
import { sweBench } from './swe-bench/environment.ts';
import { sweMini } from './swe-mini/environment.ts';
import { webArena } from './webarena/environment.ts';

const builtIn: readonly Environment[] = [
  sweMini,
  sweBench as Environment,
  gsm8k,
  gsm8kMultiTurn,
  aime,
  math,
  qa,
  qaJudged,
  humaneval as Environment,
  lcb as Environment,
  mbpp as Environment,
  python as Environment,
  text2sql as Environment,
  text2sqlMini as Environment,
  searchEnvironment as Environment,
  searchcodeEnvironment as Environment,
  browsecompPlus as Environment,
  memoryEnvironment as Environment,
  rlmEnvironment as Environment,
  // One a line.
  harbor as Environment,
  webArena as Environment,
  computerEnvironment as Environment,
];

const environments = new Registry<Environment>(
  'environment',
  Object.fromEntries(builtIn.map((environment) => [environment.name, environment])),
);

/** The name is part of task keys, of paths and of workflow ids. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/**
 * Adds a custom environment. The name must be new.
 * Errors: `DefinitionRefused` if a member is missing or wrong; `NameTaken`.
 */
export function defineEnvironment<Options>(environment: Environment<Options>): Environment<Options> {
  const definition = new Definition(
    'defineEnvironment',
    environment,
    NAME,
    'give letters, digits, dot, dash and underscore, at most 100',
  );
  definition.functions(['open']);
  const { options } = environment;
  if (options !== undefined && typeof (options as Partial<typeof options>).safeParse !== 'function')
    throw definition.refused('options', options, 'give a zod schema, or leave it out');
  const { judges } = environment;
  if (judges !== undefined && !(Array.isArray(judges) && judges.every((name) => JUDGE_NAME.test(String(name)))))
    throw definition.refused('judges', judges, 'give a list of names: letters, digits, dash and underscore');
  environments.define(environment.name, environment as Environment);
  return environment;
}

/** `modules`: digest of the run's modules. Errors: `UnknownName`, with the known ones. */
export function environmentNamed(name: string, modules?: string): Environment {
  const environment = environments.of(modules).get(name);
  if (environment) return environment;
  const names = environmentNames(modules);
  throw new UnknownName(
    `there is no environment ${JSON.stringify(name)}; known: ${names.join(', ')} (modules define ` +
      `others)${didYouMean(name, names)}`,
  );
}

export function environmentNames(modules?: string): string[] {
  return environments.names(modules);
}
