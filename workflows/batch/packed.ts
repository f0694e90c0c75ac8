/**
 * A compact form of rollout numbers, to carry them over to another history: a sequence in even steps takes little room,
 * however long it is. Pure.
 */

/** `[first, count, step]` stands for `count` numbers. */
export type Packed = ReadonlyArray<number | readonly [first: number, count: number, step: number]>;

/** Shorter sequences are stored number by number, which takes less room. */
const LEAST = 4;

/** How many numbers from index `from` on are in even steps. */
function evenFrom(numbers: readonly number[], from: number): number {
  const step = (at: number) => (numbers[at + 1] ?? Number.NaN) - (numbers[at] ?? Number.NaN);
  let to = from;
  while (step(to) === step(from)) to += 1;
  return to - from + 1;
}

/** Keeps the order. */
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
