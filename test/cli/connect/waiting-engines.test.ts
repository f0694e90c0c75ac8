/** Hunts runs that wait for an engine without a word, and words about runs that wait for nothing. */
import { expect, it } from 'vitest';
import { waitingEngines, waitingLine } from '../../../cli/connect/waiting-engines.ts';
import type { EngineRecord } from '../../../protocol/engine.ts';

const record = (run: string, kind: string, mixed = false): EngineRecord => ({
  run,
  kinds: { sampling: { id: `native-${kind}`, depends: {} }, training: { id: `tensorflow-${kind}`, depends: {} } },
  mixed,
});
const worker = (kind: string, state: 'live' | 'silent' = 'live') => ({
  state,
  queues: ['gpu', 'endpoint', `gpu:native-${kind}`, `gpu-train:tensorflow-${kind}`],
});

it('an open run waits for each kind that no live worker has', () => {
  const records = [record('here', 'a'), record('gone', 'b'), record('ended', 'b'), record('mixed', 'b', true)];
  const open = ['here', 'gone', 'mixed'];
  expect(waitingEngines(records, open, [worker('a')])).toEqual([
    { run: 'gone', kind: 'native-b' },
    { run: 'gone', kind: 'tensorflow-b' },
  ]);
  expect(waitingEngines(records, open, [worker('a'), worker('b')])).toEqual([]);
  expect(waitingEngines([record('here', 'a')], ['here'], [worker('a', 'silent')]).length).toBe(2);
});

it('the line names the run, the kind and both remedies', () => {
  const line = waitingLine({ run: 'eval/e', kind: 'native-b' });
  expect(line).toMatch(
    /^eval\/e waits for an engine of the kind native-b, .* start a GPU worker .* LONGHAUL_MIXED_ENGINES=1/,
  );
});
