/** Parsers of logs by name (those of SWE-bench's `log_parser`) and by repository. */

import { didYouMean } from '../../../modules/closest.ts';
import { cargo, goTest, jest, jestJson, marked, mocha, tap, vitest } from './other-languages.ts';
import { matplotlib, pytest, pytestOptions, pytestV2, pytestVerbose, seaborn } from './pytest.ts';
import type { LogParser } from './status.ts';
import { django, sympy } from './unittest.ts';

/** Names start with `parse_log_` in SWE-bench's records; here they may be given without it. */
const PARSERS: Readonly<Record<string, LogParser>> = {
  pytest,
  pytest_options: pytestOptions,
  pytest_v2: pytestV2,
  pytest_verbose: pytestVerbose,
  astroid: pytest,
  flask: pytest,
  marshmallow: pytest,
  pvlib: pytest,
  pyvista: pytest,
  sqlfluff: pytest,
  xarray: pytest,
  pydicom: pytestOptions,
  requests: pytestOptions,
  pylint: pytestOptions,
  astropy: pytestV2,
  scikit: pytestV2,
  sphinx: pytestV2,
  matplotlib,
  seaborn,
  django,
  unittest: django,
  sympy,
  gotest: goTest,
  jest,
  jest_json: jestJson,
  vitest,
  mocha,
  highlightjs: mocha,
  marked,
  tap,
  cargo,
};

export const PARSER_NAMES: readonly string[] = Object.keys(PARSERS);

const OF_REPOSITORY: Readonly<Record<string, string>> = {
  'astropy/astropy': 'astropy',
  'django/django': 'django',
  'matplotlib/matplotlib': 'matplotlib',
  'mwaskom/seaborn': 'seaborn',
  'psf/requests': 'requests',
  'pydicom/pydicom': 'pydicom',
  'pylint-dev/pylint': 'pylint',
  'scikit-learn/scikit-learn': 'scikit',
  'sphinx-doc/sphinx': 'sphinx',
  'sympy/sympy': 'sympy',
  'gin-gonic/gin': 'gotest',
  'caddyserver/caddy': 'gotest',
  'gohugoio/hugo': 'gotest',
  'hashicorp/terraform': 'gotest',
  'prometheus/prometheus': 'gotest',
  'markedjs/marked': 'marked',
  'highlightjs/highlight.js': 'highlightjs',
};

const bare = (name: string): string => name.replace(/^parse_log_/u, '');

/** What is wrong with a parser's name; `undefined`: nothing. */
export function unknownParser(name: string): string | undefined {
  return Object.hasOwn(PARSERS, bare(name))
    ? undefined
    : `give one of ${PARSER_NAMES.join(', ')}${didYouMean(bare(name), PARSER_NAMES)}`;
}

/** The parser of this name; `pytest` if there is none: `unknownParser` says so before. */
export const parserNamed = (name: string): LogParser => PARSERS[bare(name)] ?? pytest;

export const parserOfRepository = (repo: string): string =>
  (Object.hasOwn(OF_REPOSITORY, repo) ? OF_REPOSITORY[repo] : undefined) ?? 'pytest';
