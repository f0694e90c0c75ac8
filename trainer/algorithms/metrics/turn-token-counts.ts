/** Tokens of each turn: the lengths of the runs of a mask in which the policy spoke. */

/** Lengths of the runs of 1, row after row; a row without any has none. */
export function turnTokenCounts(masks: ReadonlyArray<readonly number[]>): number[] {
  return masks.flatMap((mask) => {
    const turns: number[] = [];
    let before = 0;
    for (const counts of mask) {
      if (counts && !before) turns.push(0);
      if (counts) turns[turns.length - 1] = (turns.at(-1) ?? 0) + 1;
      before = counts;
    }
    return turns;
  });
}
