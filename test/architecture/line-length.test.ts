/**
 * Source lines have at most 120 columns. The formatter breaks code, but no strings and no comments. Excepted: files that
 * hold text which breaks nowhere (programs of another language, prompts, SQL, markup, tables, regular expressions), and
 * a few templates with one long expression, each with the number of its long lines. A number here only falls. Not
 * asserted: tests, examples, and files that are not TypeScript or JavaScript.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const COLUMNS = 120;
const KNOWN: Readonly<Record<string, number>> = {
  'agents/mcp/transport.ts': 2,
  'agents/tools/browser/server-actions.ts': 8,
  'agents/tools/browser/server-protocol.ts': 3,
  'agents/tools/computer/desktop-server.ts': 4,
  'agents/tools/shell/code-interpreter.ts': 1,
  'agents/tools/shell/jobs.ts': 2,
  'agents/web/page-summary.ts': 2,
  'benchmarks/soak/curve.ts': 1,
  'cli/verbs/jobs/eval.ts': 1,
  'recipes/sft/run-sft.ts': 1,
  'recipes/tokenizer/chat-form.ts': 1,
  'reports/evaluation/pass-at-k-plot.ts': 2,
  'reports/learning-curve.ts': 1,
  'reports/read-model/queries.ts': 2,
  'sandboxes/docker/images/pull.ts': 1,
  'scripts/results.ts': 1,
  'scripts/setup/engine/engine-package.mjs': 1,
  'servers/apis/responses-request.ts': 1,
  'stack/ensure-stack.ts': 1,
  'store/sqlite-store.ts': 1,
  'store/tinker/sqlite-operations.ts': 2,
  'tasks/computer/application.ts': 1,
  'tasks/math/latex-tokens.ts': 4,
  'protocol/python-text.ts': 1,
  'tasks/qa/judge.ts': 3,
  'tasks/search/browsecomp-plus.ts': 1,
  'tasks/search/judge-answer.ts': 2,
  'tasks/webarena/locators.ts': 3,
  'trainer/checkpoints/policy-files.ts': 1,
  'trainer/hub/hub-cache.ts': 1,
  'trainer/tokenizer/jinja/python-strings.ts': 1,
  'workers/allowed/guard.ts': 1,
};

it('has no line of more than 120 columns outside of embedded text', () => {
  const found: Record<string, number> = {};
  const paths = execFileSync('git', ['ls-files', '*.ts', '*.mts', '*.mjs'], { cwd: root, encoding: 'utf8' }).split(
    '\n',
  );
  for (const path of paths) {
    if (path === '' || /^(?:test|examples)\//u.test(path) || !existsSync(join(root, path))) continue;
    const lines = readFileSync(join(root, path), 'utf8').split('\n');
    const long = lines.filter(({ length }) => length > COLUMNS).length;
    if (long > 0) found[path] = long;
  }
  expect(found, 'wrap the comment, or cut the string with +').toEqual(KNOWN);
});
