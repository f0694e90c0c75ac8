/** Hunts text that is sent and then changed, incomplete characters, and stop strings that reach the client. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stopAt, tellable } from '../../../servers/apis/text-stream.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '<', '/', 'é'), maxLength: 24 });
const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '<', '/'), minLength: 1, maxLength: 4 }), {
  maxLength: 3,
});

it('sent text is always a start of later text, and never ends in a start of a stop string', () => {
  fc.assert(
    fc.property(text, stops, (said, marks) => {
      // Nothing is sampled after a stop string: a longer one that started earlier is never completed.
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

it('a character of several tokens is sent when it is complete', () => {
  expect(tellable('caf\uFFFD', [])).toBe('caf');
  expect(tellable('café', [])).toBe('café');
  expect(tellable('wait <fun', ['<function='])).toBe('wait ');
  expect(tellable('wait <fan', ['<function='])).toBe('wait <fan');
});
