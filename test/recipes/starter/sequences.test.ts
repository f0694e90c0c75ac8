/**
 * Training sequences of the starter. Why: a mask that is one turn off trains the slips, and nothing else would show
 * it; and held-out tasks are worthless if training has seen their names. Asserted: exactly the assistant's turns are
 * trained, without the slips; no kind of sequence contains a held-out name, trained or not. Not asserted: the other
 * content of drills.
 */
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { END, roleToken } from '../../../recipes/starter/chat-template.ts';
import { type SequenceKind, sequenceSource } from '../../../recipes/starter/sequences.ts';
import { demonstrate } from '../../../tasks/swe-mini/demonstrations.ts';
import { isHeldOutName, SYLLABLES } from '../../../tasks/swe-mini/names.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

const tokenizer = await loadTokenizer(fileURLToPath(new URL('../../../examples/starter', import.meta.url)));
const source = sequenceSource(tokenizer);

/** Examples of the starter are one sequence each. */
function sequence(kind: SequenceKind, n: number) {
  const [one, ...more] = source(kind, n);
  if (one === undefined || more.length > 0) throw new Error(`${kind} ${n} is not one sequence`);
  return one;
}

const FIRST_CLEAN_TASK = 1_000_000;

/** The text of the trained tokens, split at the ends of the assistant's turns. */
function counted(n: number): string[] {
  const { tokens, mask } = sequence('clean', n);
  return tokenizer
    .decode(tokens.filter((_, i) => mask[i] === 1))
    .split(END)
    .filter((text) => text !== '');
}

/** The same text, from the messages only. */
function expected(n: number): string[] {
  const { messages, slips } = demonstrate(`swe-mini-train-${FIRST_CLEAN_TASK + n}`, 'clean');
  return messages.flatMap((message, i) => {
    if (message.role !== 'assistant' || slips.includes(i)) return [];
    const whole = tokenizer.renderChat([message], [], { addGenerationPrompt: false });
    return [whole.slice(roleToken('assistant').length, whole.lastIndexOf(END))];
  });
}

it("train the assistant's turns, except those that slip", () => {
  const numbers = Array.from({ length: 60 }, (_, n) => n);
  expect(numbers.some((n) => demonstrate(`swe-mini-train-${FIRST_CLEAN_TASK + n}`, 'clean').slips.length > 0)).toBe(
    true,
  );
  for (const n of numbers) expect(counted(n), `sequence ${n}`).toEqual(expected(n));
});

/** All pairs of syllables that form a held-out name. */
const heldOut = SYLLABLES.flatMap((a) => SYLLABLES.map((b) => a + b)).filter((pair) => isHeldOutName(pair));
const asWord = new RegExp(`\\b(?:${heldOut.join('|')})\\b`, 'u');

it.each(['clean', 'mixed'] as const)('%s demonstrations contain no name of a held-out task', (kind) => {
  for (let n = 0; n < 2000; n += 1)
    expect(asWord.exec(tokenizer.decode(sequence(kind, n).tokens)), `${kind} ${n}`).toBeNull();
});

it('drills contain no name of a held-out task anywhere', () => {
  for (let n = 0; n < 2000; n += 1) {
    const texts = sequence('drills', n).tokens.map((token) => tokenizer.decode([token]));
    const pairs = texts.map((text, i) => text + (texts[i + 1] ?? ''));
    expect(
      pairs.filter((pair) => isHeldOutName(pair)),
      `drill ${n}: ${texts.join('|')}`,
    ).toEqual([]);
  }
});
