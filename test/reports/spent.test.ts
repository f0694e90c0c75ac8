/** Hunts a call that counts twice in what a run has used, and a budget that is not the live one. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ReadModel } from '../../reports/read-model/read-model.ts';
import { RunTallies } from '../../reports/run-tally.ts';
import { budgetsIn } from '../../reports/budgets.ts';
import { SpendingLedger, SpendingTally, spentEvent, sumOf } from '../../reports/spending.ts';
import { spentLines, spentOf, usedText } from '../../reports/spent.ts';
import { keys } from '../../protocol/record-keys.ts';
import { useWorld } from '../activities/world.ts';

const world = useWorld();
const at = (step: number) => ({ run: 'r', rollout: `train/r/step-${step}/t-train-0/0`, attempt: 1 });
const asked = (call: string, usd = 0.25) => ({ by: 'judge/a', call, prompt: 10, sampled: 5, usd, seconds: 1 });

it('a call counts once, whoever repeats it, and two attempts’ calls of one name are two', async () => {
  const { store } = world.now;
  const ledger = new SpendingLedger(store);
  await store.append([spentEvent(at(1), asked('grade/x/1'))]);
  expect(sumOf(await ledger.of('r')).calls).toBe(1);
  await store.append([
    spentEvent(at(1), asked('grade/x/1')),
    spentEvent({ ...at(1), attempt: 2 }, asked('grade/x/1')),
    spentEvent(at(2), { by: 'policy', call: '00001', prompt: 100, sampled: 7 }),
  ]);
  const both = await Promise.all([ledger.of('r'), ledger.of('r')]);
  expect(both.map(sumOf)).toMatchObject([{ calls: 3 }, { calls: 3, prompt: 120, sampled: 17, usd: 0.5 }]);
});

it('metrics of judges are those of the asked batches alone', async () => {
  const tally = new SpendingTally();
  for (const event of [spentEvent(at(1), asked('1')), spentEvent(at(1), asked('2')), spentEvent(at(2), asked('1'))])
    tally.add(event);
  expect(tally.metrics(['step-1'])).toEqual({
    'judge/a/calls': 2,
    'judge/a/tokens': 30,
    'judge/a/usd': 0.5,
    'judge/a/seconds': 2,
  });
  expect(tally.metrics(['step-3'])).toEqual({});
});

it('the last change of a budget counts, and its fields are what is left of', async () => {
  const config = { budget: { tokens: 100 }, judges: { a: { budget: { usd: 1 } } } };
  const change = (field: string, to: number) => ({ at: '', step: 1, field, from: null, to });
  const changes = [change('budget.tokens', 200), change('steps', 9), change('judges.a.budget.tokens', 60)];
  expect(budgetsIn(config, changes)).toEqual({ budget: { tokens: 200 }, judges: { a: { usd: 1, tokens: 60 } } });
  const { store } = world.now;
  await store.putOnce(keys.run('r'), { run: 'r', config });
  await store.putOnce(keys.changes('r', '1'), changes);
  const tally = new SpendingTally();
  tally.add(spentEvent(at(1), asked('1')));
  const spent = await spentOf('r', store, tally, 3_600_000);
  expect(spentLines(spent)).toEqual([
    'used: 15 of 200 tokens (7%) · $0.25',
    'judge a: 1 answers · 15 of 60 tokens (25%) · $0.25 of $1.00 (25%) · 1.0 s',
  ]);
  expect(usedText(spent)).toBe('7% of tokens');
  await store.putOnce(keys.changes('r', '2'), [change('judges.a.budget.hours', 0.001)]);
  expect(spentLines(await spentOf('r', store, tally, 3_600_000)).at(-1)).toBe(
    'judge a: 1 answers · 15 of 60 tokens (25%) · $0.25 of $1.00 (25%) · 0.00028 of 0.001 hours (27%) · 1.0 s',
  );
});

it('the read model has the same sums, and each judge’s call with its start and end', async () => {
  const { store, dir } = world.now;
  const key = keys.ask(at(1), 'tool/3/0', 'ab12', 1);
  await store.begin(`judge:${key}`);
  await store.putOnce(key, {});
  await store.begin(`judge:${keys.ask(at(1), 'grade', 'ab12', 2)}`);
  await store.append([
    spentEvent(at(1), asked('tool/3/0/ab12/1')),
    spentEvent(at(2), asked('1')),
    spentEvent(at(2), { by: 'policy', call: '00001', prompt: 3, sampled: 4 }),
  ]);
  const model = new ReadModel(store, join(dir, 'read-model.sqlite'));
  try {
    const [tally, told] = [await new RunTallies(store).of('r'), await model.of('r')];
    expect(new Map(told.spending.by)).toEqual(tally.spending.by);
    for (const batches of [['step-1'], ['step-1', 'step-2'], []])
      expect(told.spending.metrics(batches)).toEqual(tally.spending.metrics(batches));
    expect(await model.calls(at(1).rollout)).toMatchObject([
      { kind: 'judge', turn: 0, place: 'grade/ab12/2', starts: 1, ended: null },
      { kind: 'judge', turn: 3, place: 'tool/3/0/ab12/1', starts: 1, ended: expect.any(String) as string },
    ]);
  } finally {
    model.close();
  }
});
