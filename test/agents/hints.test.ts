/**
 * Hunts hints that come too early, too often or too late, and hints that change what a policy without settings reads.
 * Not asserted: that a policy follows them.
 */
import { describe, expect, it } from 'vitest';
import { type HintView, hintsFor, withHints } from '../../agents/hints.ts';
import { SUMMARY_REQUEST } from '../../agents/summary.ts';
import { DEFAULT_HINTS, hintCounts, type HintSettings } from '../../protocol/hints.ts';
import type { ParsedTurn } from '../../protocol/message.ts';

const acts = (command: string, name = 'bash'): ParsedTurn => ({
  kind: 'calls',
  content: '',
  calls: [{ name, arguments: { command } }],
});
const talks: ParsedTurn = { kind: 'no-call', content: 'hm' };
const garbles: ParsedTurn = { kind: 'malformed', content: '<tool_call>', error: 'The call is cut.' };

const viewOf = (turns: readonly ParsedTurn[], over: Partial<HintView> = {}): HintView => ({
  parsed: turns.at(-1) ?? talks,
  earlier: turns.slice(0, -1),
  tools: ['bash', 'finish'],
  reads: 'calls',
  turnsLeft: 10,
  contextTokensLeft: 1000,
  ...over,
});

const rulesAfter = (turns: readonly ParsedTurn[], settings: Partial<HintSettings>, over: Partial<HintView> = {}) =>
  hintsFor(viewOf(turns, over), { ...DEFAULT_HINTS, ...settings }).map(({ rule }) => rule);

/** The numbers of the turns that have a hint. */
const hintedTurns = (turns: readonly ParsedTurn[], settings: Partial<HintSettings>) =>
  turns.flatMap((_, i) => (rulesAfter(turns.slice(0, i + 1), settings).length > 0 ? [i + 1] : []));

const repeat = (turn: ParsedTurn, times: number) => Array.from({ length: times }, () => turn);

describe('a rule', () => {
  it('applies to the same calls in a row, at the number given and its multiples', () => {
    expect(hintedTurns(repeat(acts('ls'), 7), { sameAction: 3 })).toEqual([3, 6]);
    expect(hintedTurns([acts('ls'), acts('ls'), talks, acts('ls')], { sameAction: 3 })).toEqual([]);
    expect(hintedTurns([acts('ls'), acts('ls'), acts('ls -l')], { sameAction: 3 })).toEqual([]);
  });

  it('compares numbers as they were written', () => {
    const written = (text: string): ParsedTurn => ({
      kind: 'calls',
      content: '',
      calls: [{ name: 'wait', arguments: { seconds: 12 }, written: `{"seconds":${text}}` }],
    });
    expect(hintedTurns([written('12'), written('12.0')], { sameAction: 2 })).toEqual([]);
  });

  it('applies to two calls in turn', () => {
    const turns = ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b'].map((command) => acts(command));
    expect(hintedTurns(turns, { alternating: 2 })).toEqual([4, 8]);
    expect(hintedTurns(repeat(acts('a'), 8), { alternating: 2 })).toEqual([]);
    expect(
      hintedTurns(
        ['c', 'b', 'a', 'b', 'a'].map((command) => acts(command)),
        { alternating: 2 },
      ),
    ).toEqual([5]);
  });

  it('applies to messages without a call', () => {
    expect(hintedTurns([acts('a'), talks, garbles, talks, talks], { monologue: 2 })).toEqual([3, 5]);
  });

  it('applies to a tool that is not offered, and names the closest', () => {
    expect(hintsFor(viewOf([acts('ls', 'bsh')]), { ...DEFAULT_HINTS, unknownTool: true })).toEqual([
      { rule: 'unknownTool', text: 'There is no tool "bsh". Did you mean bash? The tools are bash, finish.' },
    ]);
    expect(rulesAfter([acts('ls')], { unknownTool: true })).toEqual([]);
  });

  it('applies near the end, and not where nobody reads it', () => {
    const settings = { turnsLeft: 2, tokensLeft: 100 };
    expect(rulesAfter([talks], settings, { turnsLeft: 3, contextTokensLeft: 101 })).toEqual([]);
    expect(rulesAfter([talks], settings, { turnsLeft: 2, contextTokensLeft: 100 })).toEqual([
      'turnsLeft',
      'tokensLeft',
    ]);
    expect(rulesAfter([talks], settings, { turnsLeft: 0, contextTokensLeft: 100 })).toEqual([]);
    expect(rulesAfter([talks], settings, { reads: 'text', turnsLeft: 1 })).toEqual(['turnsLeft']);
  });

  it('about calls does not apply to an agent that reads text', () => {
    expect(rulesAfter(repeat(talks, 4), { monologue: 2 }, { reads: 'text' })).toEqual([]);
  });
});

describe('a command', () => {
  const same = viewOf(repeat(acts('ls'), 3));

  it('stays as it is without settings', () => {
    for (const command of [{ do: 'act' }, { do: 'reply', message: 'x' }, { do: 'answer' }, { do: 'finish' }] as const)
      expect(withHints(command, same)).toEqual({ command, hints: [] });
  });

  it('gets the hints after its own message', () => {
    const hinted = withHints({ do: 'act', message: 'own' }, same, { sameAction: 3, turnsLeft: 10 });
    expect(hinted.hints).toEqual(['sameAction', 'turnsLeft']);
    expect(hinted.command).toEqual({
      do: 'act',
      message:
        'own\n\nYou have made the same call 3 times: bash {"command":"ls"}. Try something else.\n\nTurns left: 10.',
    });
  });

  it('that answers an unusable turn is counted by its rule', () => {
    const reply = { do: 'reply', message: 'x' } as const;
    expect(withHints(reply, viewOf([garbles])).hints).toEqual(['parseError']);
    expect(withHints(reply, viewOf([talks])).hints).toEqual(['noCall']);
    expect(hintCounts([{ hints: ['noCall'] }, {}, { hints: ['noCall', 'monologue'] }])).toEqual({
      noCall: 2,
      monologue: 1,
    });
  });

  it('that asks for a summary is left alone', () => {
    const command = { do: 'act', message: SUMMARY_REQUEST } as const;
    expect(withHints(command, same, { sameAction: 3, turnsLeft: 10 })).toEqual({ command, hints: [] });
  });
});
