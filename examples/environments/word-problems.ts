/**
 * Word problems with a number as the answer, in the layout of GSM8K: lines of `{"question": …, "answer": "… #### 42"}`.
 * No tools and no sandbox: the policy's message is the answer. A run has
 * `task: { name: word-problems, options: { train: train.jsonl, test: test.jsonl } }`.
 */

import { defineEnvironment, readRecords, recordsDataset, z } from 'longhaul';

const record = z.object({ question: z.string().min(1), answer: z.string().includes('####') });

/** The last number of a text, without separators; `undefined` if it has none. */
function lastNumber(text: string): number | undefined {
  const found = text.replaceAll(',', '').match(/-?\d+(?:\.\d+)?/g);
  return found === null ? undefined : Number(found.at(-1));
}

defineEnvironment({
  name: 'word-problems',
  options: z.strictObject({ train: z.string(), test: z.string() }),

  async open(options, io) {
    const read = (name: 'train' | 'test') => readRecords(io.path(name, options[name]), record);
    return recordsDataset({ train: await read('train'), test: await read('test') }, ({ question, answer }) => ({
      messages: [{ role: 'user', content: `${question}\nEnd with the number alone, after ####.` }],
      tools: [],

      async grade(_ctx, { answer: said }) {
        const right = lastNumber(answer.slice(answer.lastIndexOf('####')));
        const given = lastNumber(said.slice(Math.max(0, said.lastIndexOf('####'))));
        const format = said.includes('####') ? 1 : 0;
        const passed = given !== undefined && given === right;
        const reason = `the answer was ${given ?? 'no number'}, and ${right} is right`;
        return await Promise.resolve({
          code: 'graded',
          reward: passed ? 1 : 0,
          passed,
          reason,
          parts: { format, outcome: passed ? 1 : 0 },
        });
      },

      oracle: async () => await Promise.resolve([{ role: 'assistant', content: answer }]),
    }));
  },
});
