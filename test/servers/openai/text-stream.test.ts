/** Hunts text that is told and then taken back, half characters, and stop strings that reach the client. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stopAt, tellable } from '../../../servers/openai/text-stream.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '<', '/', 'é'), maxLength: 24 });
const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '<', '/'), minLength: 1, maxLength: 4 }), {
  maxLength: 3,
});

it('what is told is always the beginning of what is told later, and never of a stop string', () => {
  fc.assert(
    fc.property(text, stops, (said, marks) => {
      // Nothing is sampled after a stop string: a longer one, which began before it, is never completed.
      const lengths = Array.from({ length: said.length + 1 }, (_, length) => length);
      const whole = said.slice(
        0,
        lengths.find((length) => stopAt(said.slice(0, length), marks) >= 0),
      );
      const end = stopAt(whole, marks);
      const final = end >= 0 ? whole.slice(0, end) : whole;
      for (let length = 0; length <= whole.length; length += 1) {
        const told = tellable(whole.slice(0, length), marks);
        expect(final.startsWith(told)).toBe(true);
        expect(stopAt(told, marks)).toBe(-1);
      }
    }),
  );
});

it('a character of several tokens is told when it is whole', () => {
  expect(tellable('caf\uFFFD', [])).toBe('caf');
  expect(tellable('café', [])).toBe('café');
  expect(tellable('wait <fun', ['<function='])).toBe('wait ');
  expect(tellable('wait <fan', ['<function='])).toBe('wait <fan');
});
