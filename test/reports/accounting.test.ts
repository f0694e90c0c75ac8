/** Hunts an accounting that cannot find errors. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { accountFor } from '../../reports/accounting.ts';
import type { RolloutEvent, RolloutEventName } from '../../store/store.ts';

const event = (rollout: string, name: RolloutEventName, over: Partial<RolloutEvent> = {}): RolloutEvent => ({
  run: 'r',
  rollout,
  attempt: 1,
  event: name,
  at: '2026-01-01T00:00:00.000Z',
  ...over,
});
const nothing = { dispatched: 0, trained: 0, masked: 0, dropped: 0, evaluated: 0, duplicated: 0, lost: 0 };
const ENDS = ['trained', 'masked', 'dropped', 'evaluated'] as const;

it('counts each end once', () => {
  const events = ENDS.flatMap((end) => [
    event(end, 'dispatched'),
    event(end, 'started'),
    event(end, 'turn', { detail: '1' }),
    event(end, end),
  ]);
  expect(accountFor(events, true)).toEqual({
    ...nothing,
    dispatched: 4,
    trained: 1,
    masked: 1,
    dropped: 1,
    evaluated: 1,
  });
  expect(accountFor([], true)).toEqual(nothing);
});

it('finds rollouts that were dispatched and never ended, when the run is over', () => {
  const events = [event('a', 'dispatched'), event('a', 'graded'), event('b', 'dispatched'), event('b', 'trained')];
  expect(accountFor(events, false).lost).toBe(0);
  expect(accountFor(events, true)).toEqual({ ...nothing, dispatched: 2, trained: 1, lost: 1 });
});

it.each([
  ['two kinds of end', event('a', 'masked')],
  ['the same end of another attempt', event('a', 'trained', { attempt: 2 })],
  ['the same end in another update', event('a', 'trained', { detail: 'v2' })],
  ['an end that was refused', event('a', 'end-refused', { detail: 'masked run-cancelled' })],
])('finds a rollout with %s', (_, second) => {
  expect(accountFor([event('a', 'dispatched'), event('a', 'trained', { detail: 'v1' }), second], true)).toEqual({
    ...nothing,
    dispatched: 1,
    trained: 1,
    duplicated: 1,
  });
});

it('does not count a rollout that started or was dispatched again', () => {
  const again = [
    event('a', 'dispatched'),
    event('a', 'dispatched', { attempt: 2 }),
    event('a', 'started'),
    event('a', 'started', { attempt: 2 }),
  ];
  expect(accountFor(again, false)).toEqual({ ...nothing, dispatched: 1 });
});

it('shows the end of a rollout that was never dispatched: the sum is wrong', () => {
  const { dispatched, trained } = accountFor([event('ghost', 'trained')], true);
  expect([dispatched, trained]).toEqual([0, 1]);
});

it('is consistent for every run in which each rollout ends at most once, in any order of events', () => {
  const fates = fc.array(fc.constantFrom<RolloutEventName | 'none'>(...ENDS, 'none'), { maxLength: 30 });
  fc.assert(
    fc.property(fates, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (ends, order) => {
      const events = ends.flatMap((end, i) => [
        event(`${i}`, 'dispatched'),
        ...(end === 'none' ? [] : [event(`${i}`, end)]),
      ]);
      const shuffled = events
        .map((one) => ({ one, at: order.next().value }))
        .sort((a, b) => a.at - b.at)
        .map(({ one }) => one);
      const { dispatched, trained, masked, dropped, evaluated, duplicated, lost } = accountFor(shuffled, true);
      expect(dispatched).toBe(trained + masked + dropped + evaluated + lost);
      expect([duplicated, lost]).toEqual([0, ends.filter((end) => end === 'none').length]);
    }),
  );
});
