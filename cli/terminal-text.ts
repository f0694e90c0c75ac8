/** Text for a terminal: lines that fit its width, tables, and quoted shell words. */

const SEPARATOR = ' · ';
const BAR = /^(█*)(░*) /u;
const SHORTEST_BAR = 4;

/**
 * Fits a live line into `columns`: the bar gets shorter, then whole fields are dropped, the last first. Fields are
 * separated by ` · `, the most important first; a bar may precede them. A word is cut only if the first field alone is
 * too long.
 */
export function fitLine(line: string, columns: number): string {
  const [head = '', full = '', empty = ''] = BAR.exec(line) ?? [];
  const fields = line.slice(head.length).split(SEPARATOR);
  for (let count = fields.length; count > 0; count -= 1) {
    const text = fields.slice(0, count).join(SEPARATOR);
    if (head.length + text.length <= columns) return head + text;
    const room = columns - text.length - 1;
    if (room >= Math.min(SHORTEST_BAR, head.length))
      return head === '' ? text : `${shorter(full.length, empty.length, room)} ${text}`;
  }
  const [name = ''] = fields;
  if (name.length <= columns) return name;
  return columns < 2
    ? ''
    : `${Array.from(name)
        .slice(0, columns - 1)
        .join('')}…`;
}

/** Breaks a permanent line between its fields if it is too wide. A single field is not broken: it may be a path. */
export function breakLine(line: string, columns: number): string {
  if (line.length <= columns) return line;
  const [first = '', ...rest] = line.split(SEPARATOR);
  const lines = [first];
  for (const field of rest) {
    const last = lines.at(-1) ?? '';
    if (last.length + SEPARATOR.length + field.length <= columns)
      lines[lines.length - 1] = `${last}${SEPARATOR}${field}`;
    else lines.push(`    ${field}`);
  }
  return lines.join('\n');
}

/** A shorter bar of the same proportion. Started work is never shown as empty, unfinished work never as full. */
function shorter(full: number, empty: number, room: number): string {
  const width = Math.min(full + empty, room);
  const least = full > 0 ? 1 : 0;
  const most = empty > 0 ? width - 1 : width;
  const filled = Math.max(least, Math.min(most, Math.round((full / (full + empty)) * width)));
  return `${'█'.repeat(filled)}${'░'.repeat(width - filled)}`;
}

/** Quotes a word for a shell, for printed commands that users copy. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Rows as aligned columns. */
export function table(rows: ReadonlyArray<readonly string[]>): string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, index) =>
    Math.max(...rows.map((row) => (row[index] ?? '').length)),
  );
  return rows.map((row) =>
    row
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
