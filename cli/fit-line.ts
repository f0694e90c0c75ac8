/** A live line in the width of a terminal: its bar gets shorter, then whole fields are left out, the last first. */

const SEPARATOR = ' · ';
const BAR = /^(█*)(░*) /u;
const SHORTEST_BAR = 4;

/** Fields are between ` · `, the most important first; a bar may stand before them. No word is cut unless the first field alone is too long. */
export function fitLine(line: string, columns: number): string {
  const [head = '', full = '', empty = ''] = BAR.exec(line) ?? [];
  const fields = line.slice(head.length).split(SEPARATOR);
  for (let count = fields.length; count > 0; count -= 1) {
    const text = fields.slice(0, count).join(SEPARATOR);
    if (head.length + text.length <= columns) return head + text;
    const room = columns - text.length - 1;
    if (room >= Math.min(SHORTEST_BAR, head.length)) return head === '' ? text : `${shorter(full.length, empty.length, room)} ${text}`;
  }
  const [name = ''] = fields;
  if (name.length <= columns) return name;
  return columns < 2 ? '' : `${Array.from(name).slice(0, columns - 1).join('')}…`;
}

/** Of the same proportion; what has begun is never shown as nothing, nor what is under way as whole. */
function shorter(full: number, empty: number, room: number): string {
  const width = Math.min(full + empty, room);
  const least = full > 0 ? 1 : 0;
  const most = empty > 0 ? width - 1 : width;
  const filled = Math.max(least, Math.min(most, Math.round((full / (full + empty)) * width)));
  return `${'█'.repeat(filled)}${'░'.repeat(width - filled)}`;
}
