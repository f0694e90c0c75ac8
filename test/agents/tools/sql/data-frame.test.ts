/** Rows as text, against what pandas itself printed. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { dataFrameText } from '../../../../agents/tools/sql/data-frame.ts';
import type { SqlValue } from '../../../../agents/tools/sql/sql-request.ts';

type Value = readonly [kind: 'n'] | readonly [kind: 'i' | 'f' | 's' | 'b', text: string];

function valueOf([kind, text = '']: Value): SqlValue {
  if (kind === 'n') return null;
  if (kind === 'i') return BigInt(text);
  if (kind === 's') return text;
  const bytes = Buffer.from(text, 'hex');
  return kind === 'f' ? bytes.readDoubleBE() : new Uint8Array(bytes);
}

const { cases } = JSON.parse(readFileSync(join(import.meta.dirname, 'fixtures/data-frames.json'), 'utf8')) as {
  readonly cases: ReadonlyArray<{ readonly rows: readonly Value[][]; readonly text: string }>;
};

it('prints what pandas prints', () => {
  expect(cases.length).toBeGreaterThan(100);
  for (const { rows, text } of cases) expect(dataFrameText(rows.map((row) => row.map(valueOf)))).toBe(text);
});

it('prints the names of columns if they are given', () => {
  expect(dataFrameText([['Ann', 3n]], ['name', 'age'])).toBe('name  age\n Ann    3');
});
