/** The parts of an SQL text: what is code, and what is a literal, a quoted name or a comment. One pass, linear time. */

interface Part {
  readonly kind: 'code' | 'quoted' | 'comment';
  readonly text: string;
}

const CLOSING: Readonly<Record<string, string>> = { "'": "'", '"': '"', '`': '`', '[': ']' };

/** Where the quoted part that starts at `start` ends. A doubled quote is a part of it. */
function endOfQuoted(sql: string, start: number): number {
  const open = sql.charAt(start);
  const close = CLOSING[open] ?? open;
  let end = sql.indexOf(close, start + 1);
  while (end >= 0 && open !== '[' && sql.charAt(end + 1) === close) end = sql.indexOf(close, end + 2);
  return end < 0 ? sql.length : end + 1;
}

function endOfComment(sql: string, start: number): number {
  const isLine = sql.startsWith('--', start);
  const end = sql.indexOf(isLine ? '\n' : '*/', start + 2);
  return end < 0 ? sql.length : end + (isLine ? 1 : 2);
}

/** The parts in order. Joined, they are the text. */
export function sqlParts(sql: string): Part[] {
  const parts: Part[] = [];
  const marks = /['"`[]|--|\/\*/gu;
  let at = 0;
  for (let mark = marks.exec(sql); mark !== null; mark = marks.exec(sql)) {
    const isComment = mark[0].length === 2;
    if (mark.index > at) parts.push({ kind: 'code', text: sql.slice(at, mark.index) });
    at = (isComment ? endOfComment : endOfQuoted)(sql, mark.index);
    parts.push({ kind: isComment ? 'comment' : 'quoted', text: sql.slice(mark.index, at) });
    marks.lastIndex = at;
  }
  if (at < sql.length) parts.push({ kind: 'code', text: sql.slice(at) });
  return parts;
}

/** The text with its code changed. Literals, quoted names and comments stay. */
export const mapCode = (sql: string, change: (code: string) => string): string =>
  sqlParts(sql)
    .map(({ kind, text }) => (kind === 'code' ? change(text) : text))
    .join('');

/** The code alone; a space stands for each literal, quoted name and comment. */
export const codeOf = (sql: string): string =>
  sqlParts(sql)
    .map(({ kind, text }) => (kind === 'code' ? text : ' '))
    .join('');

/** True if the text has neither code nor literals. */
export const isBlank = (sql: string): boolean =>
  sqlParts(sql).every(({ kind, text }) => kind === 'comment' || text.trim() === '');

/** True if the text has no statement: nothing but comments, white space and semicolons. */
export const isNoStatement = (sql: string): boolean =>
  sqlParts(sql).every(({ kind, text }) => kind === 'comment' || (kind === 'code' && /^[\s;]*$/u.test(text)));

const PARAMETER = /\?(\d*)|(?<![\w$\u0080-\uffff])([:@$][\w$\u0080-\uffff]+)/gu;

/** How many values a statement must be given: the largest number of a parameter (`?`, `?3`, `:name`, `@name`). */
export function parametersOf(sql: string): number {
  const names = new Set<string>();
  let most = 0;
  for (const [, number, name] of codeOf(sql).matchAll(PARAMETER)) {
    if (name !== undefined && names.has(name)) continue;
    if (name !== undefined) names.add(name);
    most = number ? Math.max(most, Number(number)) : most + 1;
  }
  return most;
}

/** The first word, in capitals; semicolons may be before it. Empty if the text starts with none. */
export function firstWord(sql: string): string {
  const first = sqlParts(sql).find(({ kind, text }) => kind !== 'comment' && /[^\s;]/u.test(text));
  return first?.kind === 'code'
    ? (/^[A-Za-z]+/u.exec(first.text.replace(/^[\s;]+/u, ''))?.[0] ?? '').toUpperCase()
    : '';
}

/** The statements between semicolons, without those that are blank. */
export function splitStatements(sql: string): string[] {
  const statements: string[] = [];
  let current = '';
  for (const { kind, text } of sqlParts(sql)) {
    const [head = '', ...rest] = kind === 'code' ? text.split(';') : [text];
    current += head;
    for (const part of rest) {
      statements.push(current);
      current = part;
    }
  }
  return [...statements, current].map((one) => one.trim()).filter((one) => !isBlank(one));
}
