/** The learning curve of a run as an SVG: the training pass rate and the held-out pass rates by step. */

import type { RunSummary } from './run-summary.ts';

const WIDTH = 720;
const HEIGHT = 360;
const PAD = { left: 56, right: 24, top: 48, bottom: 48 };

interface Point {
  readonly step: number;
  readonly rate: number;
}

function axes(steps: number, x: (step: number) => number, y: (rate: number) => number): string {
  const rows = [0, 0.25, 0.5, 0.75, 1].map(
    (rate) =>
      `<line x1="${PAD.left}" x2="${WIDTH - PAD.right}" y1="${y(rate)}" y2="${y(rate)}" stroke="#e5e7eb"/>` +
      `<text x="${PAD.left - 8}" y="${y(rate) + 4}" text-anchor="end">${rate}</text>`,
  );
  const every = Math.max(1, Math.ceil(steps / 10));
  const columns = Array.from({ length: Math.floor(steps / every) + 1 }, (_, i) => i * every).map(
    (step) => `<text x="${x(step)}" y="${HEIGHT - PAD.bottom + 18}" text-anchor="middle">${step}</text>`,
  );
  return [...rows, ...columns].join('\n');
}

function series(
  points: readonly Point[],
  colour: string,
  x: (step: number) => number,
  y: (rate: number) => number,
): string {
  const at = points.map(({ step, rate }) => `${x(step).toFixed(1)},${y(rate).toFixed(1)}`);
  const dots = points.map(
    ({ step, rate }) => `<circle cx="${x(step).toFixed(1)}" cy="${y(rate).toFixed(1)}" r="3" fill="${colour}"/>`,
  );
  return `<polyline points="${at.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join('')}`;
}

function legend(entries: ReadonlyArray<readonly [string, string]>): string {
  return entries
    .map(([name, colour], i) => {
      const left = PAD.left + i * 200;
      return (
        `<rect x="${left}" y="28" width="12" height="4" fill="${colour}"/><text x="${left + 18}" ` +
        `y="34">${name}</text>`
      );
    })
    .join('\n');
}

/** Plots pass rates from 0 to 1 over optimizer steps. */
export function learningCurve(summary: RunSummary): string {
  const training = summary.steps.map(({ step, passRate }) => ({ step, rate: passRate }));
  const heldOut = summary.evaluation.all.map(({ step, passRate }) => ({ step, rate: passRate }));
  const greedy = summary.evaluation.all.flatMap(({ step, greedyPassRate }) =>
    greedyPassRate === null ? [] : [{ step, rate: greedyPassRate }],
  );
  const steps = Math.max(1, ...training.map((p) => p.step));
  const x = (step: number) => PAD.left + (step / steps) * (WIDTH - PAD.left - PAD.right);
  const y = (rate: number) => HEIGHT - PAD.bottom - rate * (HEIGHT - PAD.top - PAD.bottom);
  const all = [
    ['training', '#9ca3af', training],
    ['held-out, temperature 1', '#2563eb', heldOut],
    ['held-out, greedy', '#16a34a', greedy],
  ] as const;
  // What was not measured is not in the legend either.
  const drawn = all.filter(([, , points]) => points.length > 0);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#374151">
<rect width="100%" height="100%" fill="white"/>
<text x="${PAD.left}" y="18" font-size="14">${summary.runId}: pass rate by step</text>
${legend(drawn.map(([name, colour]) => [name, colour] as const))}
${axes(steps, x, y)}
${drawn.map(([, colour, points]) => series(points, colour, x, y)).join('\n')}
<text x="${WIDTH / 2}" y="${HEIGHT - 10}" text-anchor="middle">optimizer step</text>
</svg>
`;
}
