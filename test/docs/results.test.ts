/** Hunts a results page that was edited by hand, or not written anew, and records that nobody could read. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { resultsPage } from '../../scripts/results.ts';
import { root } from './markdown.ts';

const measured = { command: 'npm test', commit: 'abcdef0', machine: 'here', date: '2026-11-23' };

function pageOf(record: unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-results-'));
  try {
    writeFileSync(join(folder, '1.json'), JSON.stringify(record));
    return resultsPage(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it('docs/results.md is what scripts/results.ts makes of the records', () => {
  const page = readFileSync(join(root, 'docs/results.md'), 'utf8');
  expect(page, 'run: node scripts/results.ts').toBe(resultsPage(join(root, 'docs/results')));
});

it('a record becomes a table: what was measured once is said once, and pipes do not end a cell', () => {
  const results = [
    { metric: 'a|b', value: 1, goal: '2' },
    { metric: 'c', value: 'd' },
  ];
  const series = [{ title: 'By step', columns: ['step', 'MiB'], rows: [[1, 2]] }];
  const page = pageOf({ title: 'T', about: 'A.', measurements: [{ ...measured, results, series, note: 'N.' }] });
  expect(page).toContain('| a\\|b | 1 | 2 | `npm test` | abcdef0 | here | 2026-11-23 |\n| c | d |  |  |  |  |  |\n');
  expect(page).toContain('\n- `npm test`, abcdef0: N.\n');
  expect(page).toContain('**By step** (abcdef0, 2026-11-23)\n\n| step | MiB |\n| --- | --- |\n| 1 | 2 |\n');
});

it('refuses a record by its file and field', () => {
  const results = [{ metric: 'a', value: 1 }];
  expect(() => pageOf({ title: 'T', about: 'A.', measurements: [{ ...measured, comit: 'x', results }] })).toThrow(
    /1\.json.*comit/s,
  );
  const series = [{ title: 'S', columns: ['a', 'b'], rows: [[1]] }];
  expect(() => pageOf({ title: 'T', about: 'A.', measurements: [{ ...measured, results, series }] })).toThrow(
    /1\.json: .*each row needs a value for each column/s,
  );
});
