/**
 * `node scripts/results.ts`: writes docs/results.md from the records in docs/results/, one table per file. To change a
 * number, change its record and run the script. A test compares the page with the records.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const DOCS = join(dirname(dirname(fileURLToPath(import.meta.url))), 'docs');
const cell = z.union([z.string(), z.number()]);

const series = z
  .strictObject({ title: z.string().min(1), columns: z.array(z.string()).min(2), rows: z.array(z.array(cell)).min(1) })
  .refine(
    ({ columns, rows }) => rows.every(({ length }) => length === columns.length),
    'each row needs a value for each column',
  );

/** The measurement of one command, at one commit, on one machine. */
const measurement = z.strictObject({
  command: z.string().min(1),
  /** The commit whose code was measured. */
  commit: z.string().regex(/^[0-9a-f]{7}$/),
  machine: z.string().min(1),
  date: z.iso.date(),
  results: z
    .array(z.strictObject({ metric: z.string().min(1), value: cell, goal: z.string().min(1).optional() }))
    .min(1),
  series: z.array(series).optional(),
  /** How it was measured: one or two sentences. */
  note: z.string().min(1).optional(),
});

const benchmarkSchema = z.strictObject({
  title: z.string().min(1),
  about: z.string().min(1),
  measurements: z.array(measurement).min(1),
});

export type Benchmark = z.infer<typeof benchmarkSchema>;
type Measurement = z.infer<typeof measurement>;

const INTRODUCTION = `# Results

Written by \`node scripts/results.ts\` from the records in [docs/results/](results). Do not edit this page.

Each number has its command, the commit that recorded it, the machine and the date. Empty cells on the right: as in the row above. No machine has a GPU unless it says so. Other jobs on the machine slow a measurement down: such times are upper bounds. Git has the earlier numbers.
`;

const escaped = (value: string | number): string => String(value).replaceAll('|', '\\|');
const row = (cells: ReadonlyArray<string | number>): string => `| ${cells.map(escaped).join(' | ')} |`;
const header = (names: readonly string[]): string => `${row(names)}\n${row(names.map(() => '---'))}`;
/** Formats a command as code. A text that contains code already (\`a\` and \`b\`) stays as it is. */
const asCode = (command: string): string => (command.includes('`') ? command : `\`${command}\``);

function rowsOf({ command, commit, machine, date, results }: Measurement): string[] {
  return results.map(({ metric, value, goal = '' }, i) =>
    row([metric, value, goal, ...(i === 0 ? [asCode(command), commit, machine, date] : ['', '', '', ''])]),
  );
}

function seriesOf({ commit, date, series: tables = [] }: Measurement): string[] {
  return tables.map(
    ({ title, columns, rows }) =>
      `**${title}** (${commit}, ${date})\n\n${header(columns)}\n${rows.map(row).join('\n')}`,
  );
}

function sectionOf({ title, about, measurements }: Benchmark): string {
  const table = [
    header(['metric', 'value', 'goal', 'command', 'commit', 'machine', 'date']),
    ...measurements.flatMap(rowsOf),
  ];
  const notes = measurements.flatMap(({ command, commit, note }) =>
    note ? [`- ${asCode(command)}, ${commit}: ${note}`] : [],
  );
  const parts = [`## ${title}`, about, table.join('\n'), notes.join('\n'), ...measurements.flatMap(seriesOf)];
  return parts.filter((part) => part !== '').join('\n\n');
}

/** The page. Errors: zod's, with the file's name, for a record with an unknown or missing field. */
export function resultsPage(folder: string): string {
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .toSorted();
  const sections = files.map((name) => {
    const parsed = benchmarkSchema.safeParse(JSON.parse(readFileSync(join(folder, name), 'utf8')));
    if (!parsed.success) throw new Error(`${name}: ${z.prettifyError(parsed.error)}`);
    return sectionOf(parsed.data);
  });
  return `${[INTRODUCTION, ...sections].join('\n')}\n`.replaceAll(/\n(## )/g, '\n\n$1').replaceAll(/\n{3,}/g, '\n\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(DOCS, 'results.md'), resultsPage(join(DOCS, 'results')));
}
