/**
 * Numbers of rollouts as they are carried over: of what waits, as many as there are, a run of numbers in even steps takes
 * no more room than one of them. Pure.
 */

/** `[first, count, step]` stands for so many numbers. */
export type Packed = ReadonlyArray<number | readonly [first: number, count: number, step: number]>;

/** Fewer are shorter as they are. */
const LEAST = 4;

/** How many numbers from place `from` on are in even steps. */
function evenFrom(numbers: readonly number[], from: number): number {
  const step = (at: number) => (numbers[at + 1] ?? Number.NaN) - (numbers[at] ?? Number.NaN);
  let to = from;
  while (step(to) === step(from)) to += 1;
  return to - from + 1;
}

/** In their order. */
export function packed(numbers: readonly number[]): Packed {
  const all: Array<Packed[number]> = [];
  for (let at = 0; at < numbers.length;) {
    const [first = 0, second = 0] = [numbers[at], numbers[at + 1]];
    const count = evenFrom(numbers, at);
    const isRun = count >= LEAST;
    all.push(isRun ? [first, count, second - first] : first);
    at += isRun ? count : 1;
  }
  return all;
}

export function unpacked(all: Packed): number[] {
  return all.flatMap((one) =>
    typeof one === 'number' ? [one] : Array.from({ length: one[1] }, (_, i) => one[0] + i * one[2]),
  );
}
