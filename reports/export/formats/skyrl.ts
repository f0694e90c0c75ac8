/** SkyRL-Agent's output, a file of whole groups each: `part-N.json` has the eleven keys for the groups in it. */

import { join } from 'node:path';
import { writeWhole } from '../export-files.ts';
import type { SequencedRollout } from '../exported-rollout.ts';
import { filled, type OutputSettings, skyrlOutput, type SkyrlTrajectory } from '../skyrl/output.ts';
import { toolProfileOf } from '../skyrl/metrics.ts';
import { type ExportedGroup, partName, type Placed, type SequenceWriter } from './format.ts';

/** Tokens of a part after which the next group begins a new one: some tens of megabytes of JSON. */
const PART_TOKENS = 2_000_000;

export const tokensOf = (rollouts: readonly SequencedRollout[]): number =>
  rollouts.reduce(
    (sum, { sequences }) =>
      sum + sequences.reduce((all, { prompt, response }) => all + prompt.length + response.length, 0),
    0,
  );

/** A rollout as SkyRL-Agent's own. One that training masked keeps its words for it, and has no token to train. */
export function asTrajectory(rollout: SequencedRollout, instance: string): SkyrlTrajectory {
  const { outcome, sample, sequences, turns, finishReason, masked, lacksIds } = rollout;
  return {
    instance,
    trajectory: sample,
    turns: sequences.length === 0 ? 0 : turns.length,
    sequences,
    ...(masked !== null && { masked: true }),
    ...(lacksIds && sequences.length > 0 && { encoded: true }),
    reward: outcome.reward ?? 0,
    finishReason,
    tools: toolProfileOf(turns),
  };
}

/** With `fill`, copies stand for rollouts without turns. A group in which nothing was sampled has nothing to copy. */
function trajectoriesOf({ rollouts, name }: ExportedGroup<SequencedRollout>, fill: boolean): SkyrlTrajectory[] {
  const own = rollouts.map((rollout) => asTrajectory(rollout, name));
  return fill && own.some(({ turns }) => turns > 0) ? filled(own) : own;
}

/** Rows are sequences. A rollout without a turn has none, or those of the copy that stands for it. */
export function skyrlWriter(folder: string, { fill = false, ...settings }: OutputSettings): SequenceWriter {
  let [number, tokens, rows] = [0, 0, 0];
  let trajectories: SkyrlTrajectory[] = [];
  const flush = async (): Promise<void> => {
    if (trajectories.length === 0) return;
    const output = skyrlOutput(trajectories, settings);
    await writeWhole(join(folder, `${partName(number)}.json`), JSON.stringify(output));
    [number, tokens, rows, trajectories] = [number + 1, 0, 0, []];
  };
  return {
    async add(group) {
      const size = tokensOf(group.rollouts);
      if (tokens > 0 && tokens + size > PART_TOKENS) await flush();
      tokens += size;
      const file = `${partName(number)}.json`;
      return trajectoriesOf(group, fill).map((trajectory): Placed => {
        trajectories.push(trajectory);
        const placed = { file, first: rows, rows: trajectory.turns > 0 ? trajectory.sequences.length : 0 };
        rows += placed.rows;
        return placed;
      });
    },
    close: flush,
  };
}
