/**
 * A customer who cannot shop: its only tools call a sub-agent and finish. The sub-agent `shopper` has a shell in the
 * task's sandbox, and what it leaves in the basket is graded. Use it with go-shopping.yaml.
 */

import { defineEnvironment, type Message, type Task } from 'longhaul';

const limits = { memoryMiB: 256, processes: 32, diskMiB: 32 };
const FRUITS = ['apples', 'pears', 'plums', 'figs'] as const;

const said = (name: string, given: Record<string, string>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name, arguments: given }],
});

function taskOf(index: number): Task {
  const fruit = FRUITS[index % FRUITS.length] ?? 'apples';
  const count = 1 + (index % 9);
  const line = `${count} ${fruit}`;
  return {
    messages: [
      { role: 'user', content: `Let the shopper buy ${line}. Then finish with the number of pieces as the answer.` },
    ],
    tools: ['delegate', 'finish'],
    agents: {
      shopper: {
        description: 'buys fruit.',
        messages: [{ role: 'system', content: 'Write each purchase as a line "COUNT FRUIT" into the file basket.' }],
        tools: ['bash', 'finish'],
      },
    },
    sandboxes: { main: { workdir: '/shop', files: [], env: {}, limits } },
    async collect(ctx) {
      const found = await (await ctx.sandbox()).read('basket', 1000);
      return found.kind === 'file' ? found.content : new Uint8Array();
    },
    async grade(_ctx, { artifact, answer }) {
      const bought = Buffer.from(artifact).toString().trim() === line;
      const parts = { bought: bought ? 0.5 : 0, counted: answer.trim() === String(count) ? 0.5 : 0 };
      const reward = parts.bought + parts.counted;
      const reason = `basket ${bought ? 'right' : 'wrong'}, answer ${JSON.stringify(answer)}`;
      return await Promise.resolve({ code: 'graded', reward, passed: reward === 1, reason, parts });
    },
    oracle: async () =>
      await Promise.resolve([
        said('delegate', { agent: 'shopper', prompt: `Buy ${line}.` }),
        said('bash', { command: `echo ${line} >> basket` }),
        said('finish', { answer: `Bought ${line}.` }),
        said('finish', { answer: String(count) }),
      ]),
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const load = async (_split: string, index: number) => await Promise.resolve(taskOf(index));
defineEnvironment({ name: 'go-shopping', open: async () => await Promise.resolve({ digest: '1', splits, load }) });
