/** `text2sql-mini`. Why: if a wrong meaning of a word could pass, policies would learn to guess. */

import { describe, expect, it } from 'vitest';
import { chatSchema } from '../../../recipes/sft/chat-records.ts';
import { miniChat } from '../../../recipes/text2sql-mini/write-chats.ts';
import type { Dataset } from '../../../tasks/environment.ts';
import { environmentNamed } from '../../../tasks/registry.ts';
import { demonstrate, rightTurns } from '../../../tasks/sql/mini/demonstrations.ts';
import { FAMILIES, makeMiniProblem } from '../../../tasks/sql/mini/problem.ts';
import { textOf } from '../../../tasks/sql/protocol.ts';
import { play, says, taskContext } from '../../support/play-task.ts';

const open = (options: object = {}): Promise<Dataset> => {
  const environment = environmentNamed('text2sql-mini');
  return environment.open(environment.options?.parse(options), { path: (_name, path) => path });
};
const COLUMNS = ['a', 'b', 'c', 'd'] as const;

describe('a task', () => {
  it('is the same for the same split and index, and another one otherwise', () => {
    const texts = ['train', 'held-out'].flatMap((split) =>
      Array.from({ length: 50 }, (_, n) => JSON.stringify(makeMiniProblem(split, n))),
    );
    expect(new Set(texts).size).toBe(100);
    expect(JSON.stringify(makeMiniProblem('train', 7))).toBe(texts[7]);
    expect(new Set(Array.from({ length: 100 }, (_, n) => makeMiniProblem('train', n).family)).size).toBe(
      FAMILIES.length,
    );
  });

  it.each(['skyrl', 'tool'])('is solved by asking first, with the protocol %s', async (protocol) => {
    const dataset = await open({ protocol });
    for (let n = 0; n < 60; n += 1) {
      const task = await dataset.load('held-out', n);
      const { verdict } = await play(task, (await task.oracle?.(taskContext)) ?? []);
      expect(verdict).toMatchObject({ code: 'graded', reward: 1, passed: true });
    }
  });

  it('is not solved by a wrong meaning of its words', async () => {
    const dataset = await open();
    for (let n = 0; n < 40; n += 1) {
      const { meanings, queryFor } = makeMiniProblem('held-out', n);
      const wrong = meanings.map(({ column }) => COLUMNS[(COLUMNS.indexOf(column) + 1 + (n % 3)) % 4]!);
      const task = await dataset.load('held-out', n);
      const message = says(`<think>x</think><solution>${queryFor(wrong)}</solution>`);
      expect((await play(task, [message])).verdict).toMatchObject({ reward: 0, passed: false, parts: { format: 1 } });
    }
  });

  it('answers what a word means', async () => {
    const task = await (await open()).load('train', 0);
    const [first] = rightTurns(makeMiniProblem('train', 0));
    const { steps } = await play(task, [says(textOf(first!))]);
    expect(steps[0]?.messages[0]?.content).toMatch(/^\n\n<observation>0\n[abcd]\n<reminder>You have 3 turns left/u);
  });
});

describe('a chat', () => {
  it('is a record of supervised training, short, and the same each time', async () => {
    const schema = chatSchema({ messages: 'messages', prompt: 'prompt', answer: 'answer', loss: 'all' });
    for (let n = 0; n < 20; n += 1) {
      const messages = await miniChat(n, 'mixed');
      expect(await miniChat(n, 'mixed')).toEqual(messages);
      const { turns } = schema.parse({ messages });
      expect(turns.at(-1)?.message.role).toBe('assistant');
      expect(JSON.stringify(messages).length).toBeLessThan(1500);
    }
  });

  it('is right in the clean quality; of the mixed ones a part guesses', () => {
    const problems = Array.from({ length: 400 }, (_, n) => makeMiniProblem('chats', n));
    for (const problem of problems) expect(demonstrate(problem, 'clean', 0)).toEqual(rightTurns(problem));
    const mixed = problems.map((problem) => demonstrate(problem, 'mixed', 0));
    const right = mixed.filter((turns, n) => turns.at(-1)?.query === problems[n]!.gold).length;
    expect(mixed.filter((turns) => turns.length === 1).length).toBeGreaterThan(200);
    expect(right).toBeGreaterThan(160);
    expect(right).toBeLessThan(240);
  });
});
