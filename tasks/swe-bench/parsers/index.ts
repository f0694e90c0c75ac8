/** Parsers of logs by name (those of SWE-bench's `log_parser`) and by repository. */

import { didYouMean } from '../../../protocol/closest.ts';
import { bpmnJs, chartJs, eslint, files, filesWithEndTimes, filesWithTimes, karma, openLayers } from './browsers.ts';
import { automake, doctest, googleTest, micropython, redis } from './c.ts';
import { ant, gradle, maven } from './java.ts';
import { cypress, lighthouseJson, prism } from './json-reports.ts';
import { cargo, goTest, jest, jestJson, marked, mocha, tap, vitest } from './other-languages.ts';
import { p5 } from './p5.ts';
import { matplotlib, pytest, pytestOptions, pytestV2, pytestVerbose, seaborn } from './pytest.ts';
import { phpunit } from './php.ts';
import { quarto } from './quarto.ts';
import { cucumber, either, minitest, rspecJson, testUnit } from './ruby.ts';
import type { LogParser } from './status.ts';
import { calypso, lighthouseMocha, next, plotly } from './suites.ts';
import { django, sympy } from './unittest.ts';

/** Names start with `parse_log_` in SWE-bench's records; here they may be given without it. */
const PYTHON: Readonly<Record<string, LogParser>> = {
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
};

const PARSERS: Readonly<Record<string, LogParser>> = {
  ...PYTHON,
  gotest: goTest,
  jest,
  jest_json: jestJson,
  vitest,
  mocha,
  highlightjs: mocha,
  marked,
  tap,
  karma,
  chart_js: chartJs,
  bpmn_js: bpmnJs,
  eslint,
  openlayers: openLayers,
  carbon: filesWithTimes,
  react_pdf: filesWithTimes,
  prettier: filesWithTimes,
  scratch_gui: filesWithTimes,
  grommet: filesWithEndTimes,
  emotion: files,
  calypso,
  p5js: p5,
  prismjs: prism,
  cypress,
  plotly_js: plotly,
  quarto_cli: quarto,
  immutable_js: either(jest, jestJson),
  cargo,
  redis,
  jq: automake,
  doctest,
  micropython_test: micropython,
  googletest: googleTest,
  maven,
  ant,
  gradle_custom: gradle,
  phpunit,
  minitest,
  cucumber,
  ruby_unit: testUnit,
  rspec_transformed_json: rspecJson,
  jekyll: either(minitest, cucumber),
};

/** Lighthouse: Mocha's reports before 3.0, Jest by file, and three versions with Mocha. */
function lighthouse(version: string): LogParser {
  if (['9.5', '10.0', '10.2'].includes(version)) return lighthouseMocha;
  return Number.parseFloat(version) < 3 ? lighthouseJson : filesWithTimes;
}

/** Repositories whose versions have other runners. */
const BY_VERSION: Readonly<Record<string, (version: string) => LogParser>> = { lighthouse, next };

export const PARSER_NAMES: readonly string[] = [...Object.keys(PARSERS), ...Object.keys(BY_VERSION)];

/** By the repository's name in small letters: records differ in the case of some. */
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
  'burntsushi/ripgrep': 'cargo',
  'sharkdp/bat': 'cargo',
  'astral-sh/ruff': 'cargo',
  'tokio-rs/tokio': 'cargo',
  'uutils/coreutils': 'cargo',
  'nushell/nushell': 'cargo',
  'tokio-rs/axum': 'cargo',
  'babel/babel': 'jest',
  'facebook/docusaurus': 'jest',
  'vuejs/core': 'vitest',
  'immutable-js/immutable-js': 'immutable_js',
  'mrdoob/three.js': 'tap',
  'axios/axios': 'tap',
  'preactjs/preact': 'karma',
  'chartjs/chart.js': 'chart_js',
  'bpmn-io/bpmn-js': 'bpmn_js',
  'eslint/eslint': 'eslint',
  'openlayers/openlayers': 'openlayers',
  'carbon-design-system/carbon': 'carbon',
  'diegomura/react-pdf': 'react_pdf',
  'prettier/prettier': 'prettier',
  'scratchfoundation/scratch-gui': 'scratch_gui',
  'grommet/grommet': 'grommet',
  'emotion-js/emotion': 'emotion',
  'automattic/wp-calypso': 'calypso',
  'processing/p5.js': 'p5js',
  'prismjs/prism': 'prismjs',
  'cypress-io/cypress': 'cypress',
  'plotly/plotly.js': 'plotly_js',
  'quarto-dev/quarto-cli': 'quarto_cli',
  'googlechrome/lighthouse': 'lighthouse',
  'alibaba-fusion/next': 'next',
  'redis/redis': 'redis',
  'valkey-io/valkey': 'redis',
  'jqlang/jq': 'jq',
  'nlohmann/json': 'doctest',
  'micropython/micropython': 'micropython_test',
  'fmtlib/fmt': 'googletest',
  'google/gson': 'maven',
  'apache/druid': 'maven',
  'javaparser/javaparser': 'maven',
  'projectlombok/lombok': 'ant',
  'apache/lucene': 'gradle_custom',
  'reactivex/rxjava': 'gradle_custom',
  'phpoffice/phpspreadsheet': 'phpunit',
  'laravel/framework': 'phpunit',
  'php-cs-fixer/php-cs-fixer': 'phpunit',
  'briannesbitt/carbon': 'phpunit',
  'jekyll/jekyll': 'jekyll',
  'fluent/fluentd': 'ruby_unit',
  'faker-ruby/faker': 'ruby_unit',
  'fastlane/fastlane': 'rspec_transformed_json',
  'jordansissel/fpm': 'rspec_transformed_json',
  'rubocop/rubocop': 'rspec_transformed_json',
};

const bare = (name: string): string => name.replace(/^parse_log_/u, '');

/** True for logs of Python's test runners. */
export const isOfPython = (name: string): boolean => Object.hasOwn(PYTHON, bare(name));

/** What is wrong with a parser's name; `undefined`: nothing. */
export function unknownParser(name: string): string | undefined {
  return PARSER_NAMES.includes(bare(name))
    ? undefined
    : `give one of ${PARSER_NAMES.join(', ')}${didYouMean(bare(name), PARSER_NAMES)}`;
}

/**
 * The parser of this name; `pytest` if there is none: `unknownParser` says so before. `version`: the instance's, which
 * decides where a repository has changed its runner.
 */
export const parserNamed = (name: string, version = ''): LogParser =>
  BY_VERSION[bare(name)]?.(version) ?? PARSERS[bare(name)] ?? pytest;

export function parserOfRepository(repo: string): string {
  const name = repo.toLowerCase();
  return (Object.hasOwn(OF_REPOSITORY, name) ? OF_REPOSITORY[name] : undefined) ?? 'pytest';
}
