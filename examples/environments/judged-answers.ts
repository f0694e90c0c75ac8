/**
 * Short explanations that a judge grades: another model, which the configuration names. No tools and no sandbox. A run:
 * `task: { name: judged-answers, options: { questions: questions.jsonl } }`, and
 * `judges: { teacher: { endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'big' }, budget: { tokens: 1000000 } } }`.
 */

import { defineEnvironment, fairAnswer, readRecords, recordsDataset, z } from 'longhaul';

const record = z.object({ question: z.string().min(1), points: z.array(z.string().min(1)).min(1) });

const ASKED = `Which of these points does the answer make? Reply with the numbers of the points it makes, separated by
commas, after "points:". If it makes none, reply "points: none".`;

/** The numbers after `points:`; `undefined` if the judge wrote something else. */
function pointsIn(reply: string): Set<number> | undefined {
  const [, said] = /points:\s*(none|[\d,\s]+)/i.exec(reply) ?? [];
  if (said === undefined) return undefined;
  return new Set(said.toLowerCase() === 'none' ? [] : (said.match(/\d+/g) ?? []).map(Number));
}

defineEnvironment({
  name: 'judged-answers',
  options: z.strictObject({ questions: z.string() }),
  judges: ['teacher'],

  async open(options, io) {
    const records = await readRecords(io.path('questions', options.questions), record);
    return recordsDataset({ train: records, test: records }, ({ question, points }) => ({
      messages: [{ role: 'user', content: question }],
      tools: [],
      gradedIn: 'none',

      async grade(ctx, { answer }) {
        if (answer.trim() === '') return { code: 'graded', reward: 0, passed: false, reason: 'it is empty' };
        const list = points.map((point, i) => `${i + 1}. ${point}`).join('\n');
        const about = (text: string) => `${ASKED}\n\nQuestion: ${question}\n\nPoints:\n${list}\n\nAnswer: ${text}`;
        const made = await fairAnswer({
          questions: [about(answer), `${about(answer)}\n\nReply with that one line only.`],
          control: about(points.join(' ')),
          ask: (text) => ctx.ask(text, { judge: 'teacher' }),
          read: pointsIn,
        });
        if (made === undefined)
          return { code: 'graded', reward: 0, passed: false, reason: 'the judge said nothing about it' };
        const share = points.filter((_, i) => made.has(i + 1)).length / points.length;
        return {
          code: 'graded',
          reward: share,
          passed: share === 1,
          reason: `${made.size} of ${points.length} points`,
        };
      },

      oracle: async () => await Promise.resolve([{ role: 'assistant', content: points.join(' ') }]),
    }));
  },
});
