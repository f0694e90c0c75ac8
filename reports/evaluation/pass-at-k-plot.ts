/** pass@k of every cell as an SVG: a row per cell and k, the estimate as a dot in its interval. */

import type { EvalResults } from './eval-results.ts';

const WIDTH = 720;
const ROW = 22;
const LABEL = 36;
const PAD = { left: 260, right: 80, top: 56, bottom: 40 };
const COLOURS = ['#2563eb', '#16a34a', '#d97706', '#9333ea', '#dc2626', '#0891b2'];

interface Row {
  readonly label: string;
  readonly colour: string;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

function rowsOf({ cells }: Pick<EvalResults, 'cells'>): Row[] {
  return cells.flatMap(({ cell, passAt }, i) =>
    Object.entries(passAt).map(([k, estimate]) => ({
      label: `${cell} pass@${k}`,
      colour: COLOURS[i % COLOURS.length] ?? '#374151',
      ...estimate,
    })),
  );
}

/** The end of a long label, as far as it fits left of the grid. */
function shortened(label: string): string {
  return label.length <= LABEL ? label : `…${label.slice(1 - LABEL)}`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const x = (rate: number) => Number((PAD.left + rate * (WIDTH - PAD.left - PAD.right)).toFixed(1));

function drawn({ label, colour, mean, low, high }: Row, index: number): string {
  const y = PAD.top + index * ROW + ROW / 2;
  return [
    `<text x="${PAD.left - 12}" y="${y + 4}" text-anchor="end">${escaped(shortened(label))}</text>`,
    `<line x1="${x(low)}" x2="${x(high)}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="3" ` +
      'stroke-opacity="0.4"/>',
    `<circle cx="${x(mean)}" cy="${y}" r="4.5" fill="${colour}"/>`,
    `<text x="${WIDTH - PAD.right + 14}" y="${y + 4}">${mean.toFixed(3)}</text>`,
  ].join('');
}

export function passAtKPlot(results: Pick<EvalResults, 'eval' | 'cells' | 'confidence'>): string {
  const rows = rowsOf(results);
  const bottom = PAD.top + rows.length * ROW;
  const height = bottom + PAD.bottom;
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (rate) =>
      `<line x1="${x(rate)}" x2="${x(rate)}" y1="${PAD.top}" y2="${bottom}" stroke="#e5e7eb"/>` +
      `<text x="${x(rate)}" y="${bottom + 18}" text-anchor="middle">${rate}</text>`,
  );
  const share = Number((100 * results.confidence).toFixed(1));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12" fill="#374151">
<rect width="100%" height="100%" fill="white"/>
<text x="20" y="24" font-size="14">${escaped(results.eval)}: pass@k</text>
<text x="20" y="42" fill="#6b7280">bars: ${share}% bootstrap intervals over tasks; failed rollouts count as not passed</text>
${grid.join('\n')}
${rows.map(drawn).join('\n')}
</svg>
`;
}
