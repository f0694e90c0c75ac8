/** Whether memory stays at its level after the first tenth of a soak, and how much databases grow. */

import type { Sample } from './samples.ts';

/** Memory has grown if it exceeds both together: one garbage collection more or less changes it by less. */
const FACTOR = 1.15;
const SLACK_MIB = 48;

export interface Flatness {
  /** Medians of resident memory, MiB: of the second tenth, and of the last. */
  readonly early: number;
  readonly late: number;
  readonly flat: boolean;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** The samples between two shares of the soak's length; if there are none, the first one after `from`. */
function between(samples: readonly Sample[], from: number, to: number): readonly Sample[] {
  const end = samples.at(-1)?.at ?? 0;
  const those = samples.filter(({ at }) => at > from * end && at <= to * end);
  return those.length > 0 ? those : samples.filter(({ at }) => at > from * end).slice(0, 1);
}

/** Flatness by process. */
export function flatness(samples: readonly Sample[]): Record<string, Flatness> {
  const names = Object.keys(samples.at(-1)?.processes ?? {});
  const of = (name: string, those: readonly Sample[]): number =>
    median(those.flatMap(({ processes }) => processes[name]?.residentMiB ?? []));
  return Object.fromEntries(
    names.map((name) => {
      const [early, late] = [of(name, between(samples, 0.1, 0.2)), of(name, between(samples, 0.9, 1))];
      return [name, { early, late, flat: late <= early * FACTOR + SLACK_MIB }];
    }),
  );
}

/** Bytes per step or rollout after the first tenth, by database. */
export function growth(samples: readonly Sample[]): Record<string, number> {
  const [first] = between(samples, 0.1, 1);
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.at === first.at) return {};
  return Object.fromEntries(
    Object.entries(last.databases).map(([name, bytes]) => [
      name,
      Math.round((bytes - (first.databases[name] ?? 0)) / (last.at - first.at)),
    ]),
  );
}
