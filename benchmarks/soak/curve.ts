/** The memory of each process during a soak, as an SVG. */

import type { Sample } from './samples.ts';

const WIDTH = 720;
const HEIGHT = 400;
const PAD = { left: 64, right: 24, top: 64, bottom: 48 };
const COLOURS = ['#2563eb', '#16a34a', '#d97706', '#9333ea', '#dc2626', '#0891b2', '#4b5563'];
const PER_ROW = 4;

/** `unit`: what `at` counts. */
export function memoryCurve(samples: readonly Sample[], unit: string): string {
  const names = Object.keys(samples.at(-1)?.processes ?? {});
  const most = Math.max(
    1,
    ...samples.flatMap(({ processes }) => Object.values(processes).map(({ residentMiB }) => residentMiB)),
  );
  const end = Math.max(1, ...samples.map(({ at }) => at));
  const x = (at: number) => Number((PAD.left + (at / end) * (WIDTH - PAD.left - PAD.right)).toFixed(1));
  const y = (mebibytes: number) =>
    Number((HEIGHT - PAD.bottom - (mebibytes / most) * (HEIGHT - PAD.top - PAD.bottom)).toFixed(1));
  const rows = [0, 0.25, 0.5, 0.75, 1].map(
    (share) =>
      `<line x1="${PAD.left}" x2="${WIDTH - PAD.right}" y1="${y(share * most)}" y2="${y(share * most)}" ` +
      'stroke="#e5e7eb"/>' +
      `<text x="${PAD.left - 8}" y="${y(share * most) + 4}" text-anchor="end">${Math.round(share * most)}</text>` +
      `<text x="${x(share * end)}" y="${HEIGHT - PAD.bottom + 18}" ` +
      `text-anchor="middle">${Math.round(share * end)}</text>`,
  );
  const lines = names.map((name, i) => {
    const points = samples.flatMap(({ at, processes }) =>
      processes[name] ? [`${x(at)},${y(processes[name].residentMiB)}`] : [],
    );
    const [left, top] = [PAD.left + (i % PER_ROW) * 160, 34 + Math.floor(i / PER_ROW) * 16];
    const colour = COLOURS[i % COLOURS.length] ?? '#374151';
    return (
      `<rect x="${left}" y="${top - 6}" width="12" height="4" fill="${colour}"/><text x="${left + 18}" ` +
      `y="${top}">${name}</text>` +
      `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`
    );
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#374151">
<rect width="100%" height="100%" fill="white"/>
<text x="${PAD.left}" y="18" font-size="14">resident memory (MiB) by ${unit}</text>
${rows.join('\n')}
${lines.join('\n')}
<text x="${WIDTH / 2}" y="${HEIGHT - 10}" text-anchor="middle">${unit}</text>
</svg>
`;
}
