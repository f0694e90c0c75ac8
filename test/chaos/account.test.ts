/** Hunts claims that are never found broken. */
import { describe, expect, it } from 'vitest';
import {
  broken,
  type Claims,
  executionsIn,
  type Kill,
  quantile,
  recoveryOf,
  repeatedIn,
  uncutRepeats,
} from '../../chaos/account.ts';
import { workOf } from '../../chaos/journal.ts';

const work = (key: string, seq = 1) => workOf({ key, seq, at: '2026-01-01T00:00:00.000Z' }, 'r')!;
const rollout = 'train/r/step-1/swe-mini-train-3/0';
const kill = (over: Partial<Kill> = {}): Kill => ({
  process: 'gpu',
  pid: 1,
  newPid: 2,
  state: 'busy',
  at: '',
  recoveredMs: 1000,
  heldMs: 0,
  underWay: { modelCalls: 1, toolCalls: 0 },
  ...over,
});
const accounting = { dispatched: 4, trained: 2, masked: 0, dropped: 1, evaluated: 1, duplicated: 0, lost: 0 };
const fine: Claims = { kills: [kill()], accounting, uncut: [], identical: true, otherwise: [] };

it('finds nothing where nothing is', () => {
  expect(broken(fine)).toEqual([]);
});

it.each<[string, Partial<Claims>, RegExp]>([
  ['other weights', { identical: false }, /final weights differ/],
  [
    'a rollout with another result',
    { otherwise: ['eval-0/t/0', 'step-1/t/0'] },
    /2 rollouts differ from the reference, for example eval-0\/t\/0/,
  ],
  ['a lost rollout', { accounting: { ...accounting, lost: 1, trained: 1 } }, /1 rollouts were lost/],
  ['a rollout with two ends', { accounting: { ...accounting, duplicated: 1 } }, /duplicated/],
  [
    'a sum that does not come out',
    { accounting: { ...accounting, dispatched: 5 } },
    /5 rollouts were dispatched, and 4 ended/,
  ],
  [
    'a model call that began again although no kill cut it off',
    {
      uncut: [
        { kind: 'model', key: 'm' },
        { kind: 'model', key: 'n' },
      ],
    },
    /2 model calls started again although no kill had interrupted them, for example m$/,
  ],
  [
    'a tool call that did',
    { uncut: [{ kind: 'tool', key: 't' }] },
    /1 tool calls started again although no kill had interrupted them, for example t/,
  ],
  [
    'an update that did',
    { uncut: [{ kind: 'update', key: 'update:r/00001' }] },
    /1 updates started again although no kill had interrupted them, for example update:r\/00001/,
  ],
  ['somebody who did not come back', { kills: [kill({ recoveredMs: null })] }, /not back in time: gpu/],
])('finds %s', (_, over, text) => {
  expect(broken({ ...fine, ...over })).toEqual([expect.stringMatching(text)]);
});

it('counts what began again per key, and what a kill cut off once per key', () => {
  const [call, tool] = [`model:generate:${rollout}#1/00001`, `tool:${rollout}#1/1/0`];
  const works = [call, call, call, tool, `model:generate:${rollout}#2/00001`, 'update:r/00001', 'update:r/00001'].map(
    (key, i) => work(key, i),
  );
  expect(repeatedIn(works)).toEqual({ modelCalls: 2, toolCalls: 0, updates: 1 });
  expect(executionsIn(works)).toEqual({ modelCalls: 2, toolCalls: 1 });
});

describe('what began again', () => {
  const [call, other, tool, update] = [
    `model:generate:${rollout}#1/00001`,
    `model:generate:${rollout}#1/00002`,
    `tool:${rollout}#1/1/0`,
    'update:r/00001',
  ];
  const uncutIn = (keys: readonly string[], ...cuts: string[][]) =>
    uncutRepeats(
      keys.map((key, i) => work(key, i)),
      cuts,
    ).map(({ key }) => key);

  it('is fine where a kill had cut that very call off, once for each kill', () => {
    expect(uncutIn([call, tool, call, update, update, tool], [call, update], [tool])).toEqual([]);
    expect(uncutIn([call, call, call], [call], [call])).toEqual([]);
  });

  it('is found where a call was on record, though another one was cut off and did not begin again', () => {
    expect(uncutIn([call, other, tool, call], [other, tool])).toEqual([call]);
  });

  it('is found where a call began again twice, and one kill had cut it off, whatever else it had', () => {
    expect(uncutIn([call, call, call, other], [call, other, tool])).toEqual([call]);
    expect(uncutIn([call, call, call], [call, call])).toEqual([call]);
  });

  it('is found of updates and tool calls as well', () => {
    expect(uncutIn([update, tool, update, tool], [call])).toEqual([update, tool]);
  });

  it('is not judged of what is made anew by itself: sandboxes, collections, gradings', () => {
    expect(
      uncutIn([
        `init:${rollout}#1`,
        `init:${rollout}#1`,
        `collect:${rollout}#1`,
        `collect:${rollout}#1`,
        `reward:${rollout}#1`,
        `reward:${rollout}#1`,
      ]),
    ).toEqual([]);
  });
});

describe('the journal', () => {
  it.each([
    [`model:generate:${rollout}#1/00001`, 'gpu', `${rollout}#1`],
    [`tool:${rollout}#2/1/0`, 'agent-run', `${rollout}#2`],
    [`collect:${rollout}#1`, 'agent-run', `${rollout}#1`],
    [`init:${rollout}#1`, 'init', `${rollout}#1`],
    [`reward:${rollout}#1`, 'reward', `${rollout}#1`],
    ['update:r/00003', 'gpu', ''],
  ])('%s is work of %s', (key, role, sandbox) => {
    expect(work(key)).toMatchObject({ role, sandbox, rollout: sandbox.replace(/#.*/, '') });
  });

  it.each([['model:generate:train/other/step-1/a/0#1/00001'], ['update:other/00001'], ['update:rr/00001'], ['warm:x']])(
    '%s is none of ours',
    (key) => {
      expect(work(key)).toBeUndefined();
    },
  );
});

it('sorts times to recover by what was killed, by the nearest rank', () => {
  expect([quantile([], 0.5), quantile([3], 0.95), quantile([4, 1, 3, 2], 0.5), quantile([4, 1, 3, 2], 0.95)]).toEqual([
    null,
    3,
    2,
    4,
  ]);
  const kills = [
    kill(),
    kill({ recoveredMs: 3000 }),
    kill({ process: 'temporal-down', recoveredMs: 9000 }),
    kill({ process: 'client', recoveredMs: null }),
  ];
  expect(recoveryOf(kills)).toEqual({
    worker: { kills: 2, p50: 1000, p95: 3000, max: 3000 },
    server: { kills: 1, p50: 9000, p95: 9000, max: 9000 },
    other: { kills: 0, p50: null, p95: null, max: null },
  });
});
