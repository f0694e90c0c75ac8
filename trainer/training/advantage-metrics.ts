/** What an update's advantages are like before they are scaled: mean, mean size and deviation over the tokens that count. */

export function advantageMetrics(advantages: readonly Float64Array[]): Record<string, number> {
  let [count, sum, size, squares] = [0, 0, 0, 0];
  for (const part of advantages) {
    for (const advantage of part) {
      count += 1;
      sum += advantage;
      size += Math.abs(advantage);
      squares += advantage ** 2;
    }
  }
  if (count === 0) return {};
  const mean = sum / count;
  return {
    'loss/avg_raw_advantages': mean,
    'loss/avg_raw_advantages_abs': size / count,
    'loss/std_raw_advantages': Math.sqrt(Math.max(0, squares / count - mean ** 2)),
  };
}
