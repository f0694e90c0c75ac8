/**
 * Hunts answers of a policy that keep themselves from being graded: a text that a judge refuses, or that makes it talk
 * of something else, is graded 0 as long as the judge answers about the right answer.
 */

import { expect, it } from 'vitest';
import { QuestionRefused } from '../../activities/failures.ts';
import { fairAnswer, Unjudged } from '../../tasks/fair-question.ts';

const read = (reply: string) => (/^(?:yes|no)$/u.test(reply) ? reply === 'yes' : undefined);
const REFUSED = new QuestionRefused('judge refuses the question');

/** Each reply, or error, is for one question. */
async function asked(...replies: Array<string | Error>) {
  const questions: string[] = [];
  const ask = (question: string) => {
    questions.push(question);
    const reply = replies.shift() ?? new Error('too many questions');
    return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
  };
  const said = await fairAnswer({ questions: ['first', 'second'], control: 'control', ask, read });
  return { said, questions };
}

it('the first reply that can be read counts, and nothing else is asked', async () => {
  expect(await asked('yes')).toEqual({ said: true, questions: ['first'] });
  expect(await asked('Well.', 'no')).toEqual({ said: false, questions: ['first', 'second'] });
  expect(await asked(REFUSED, 'yes')).toEqual({ said: true, questions: ['first', 'second'] });
});

it('a text about which a judge says nothing has no verdict of its own if the judge answers about the right answer', async () => {
  const questions = ['first', 'second', 'control'];
  for (const reply of ['A poem.', REFUSED])
    for (const control of ['yes', 'no'])
      expect(await asked(reply, reply, control)).toEqual({ said: undefined, questions });
});

it('a judge that says nothing about the right answer either is at fault', async () => {
  await expect(asked('Well.', 'Well.', 'Well.')).rejects.toThrow(Unjudged);
  await expect(asked(REFUSED, REFUSED, REFUSED)).rejects.toThrow(REFUSED);
});

it('a judge that is down is asked nothing more', async () => {
  await expect(asked(new TypeError('down'))).rejects.toThrow('down');
});
