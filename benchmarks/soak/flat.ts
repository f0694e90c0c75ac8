/** Whether memory stays where it was after the first tenth of a soak, and by how much databases grow. */

import type { Sample } from './samples.ts';

/** More than both is growth: what a collection more or less makes is less. */
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

/** Those of the soak from one share of its length on, up to another; at least the nearest one. */
function between(samples: readonly Sample[], from: number, to: number): readonly Sample[] {
  const end = samples.at(-1)?.at ?? 0;
  const those = samples.filter(({ at }) => at > from * end && at <= to * end);
  return those.length > 0 ? those : samples.filter(({ at }) => at > from * end).slice(0, 1);
}

/** By process. */
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

/** Bytes for each step or rollout after the first tenth, by database. */
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
