/**
 * The indices of the k largest values. Ties are resolved as in torch.topk on a CPU, so that results can be compared
 * with it.
 */

/** Swaps the median of the items at `a`, `b` and `c` into `result`; `before` is a strict order of items. */
function medianToFirst(
  items: number[],
  [result, a, b, c]: readonly [number, number, number, number],
  before: (x: number, y: number) => boolean,
): void {
  const less = (i: number, j: number): boolean => before(items[i] ?? 0, items[j] ?? 0);
  const chosen = less(a, b) ? (less(b, c) ? b : less(a, c) ? c : a) : less(a, c) ? a : less(b, c) ? c : b;
  [items[result], items[chosen]] = [items[chosen] ?? 0, items[result] ?? 0];
}

/** Hoare's partition of [first, last) around the item at `pivot`; returns the start of the second part. */
function partition(
  items: number[],
  first: number,
  last: number,
  pivot: number,
  before: (x: number, y: number) => boolean,
): number {
  const middle = items[pivot] ?? 0;
  let [low, high] = [first, last];
  for (;;) {
    while (before(items[low] ?? 0, middle)) low++;
    high--;
    while (before(middle, items[high] ?? 0)) high--;
    if (low >= high) return low;
    [items[low], items[high]] = [items[high] ?? 0, items[low] ?? 0];
    low++;
  }
}

/**
 * The `count` of the indices `candidates` that have the largest `values`, in no order. Quickselect with a median of
 * three, with the same steps as C++'s `nth_element` (Musser 1997), which torch calls. Expected time is linear.
 */
export function largest(values: ArrayLike<number>, candidates: readonly number[], count: number): number[] {
  const items = [...candidates];
  const before = (x: number, y: number): boolean => (values[x] ?? 0) > (values[y] ?? 0);
  let [first, last, depth] = [0, items.length, 2 * Math.floor(Math.log2(Math.max(1, items.length)))];
  while (last - first > 3 && depth-- > 0) {
    medianToFirst(items, [first, first + 1, first + Math.floor((last - first) / 2), last - 1], before);
    const cut = partition(items, first + 1, last, first, before);
    if (cut <= count - 1) first = cut;
    else last = cut;
  }
  const rest = items.slice(first, last).sort((x, y) => (values[y] ?? 0) - (values[x] ?? 0));
  return [...items.slice(0, first), ...rest].slice(0, count);
}
