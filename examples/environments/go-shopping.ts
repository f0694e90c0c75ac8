/**
 * A customer who cannot shop: its first message goes to a sub-agent with a shell in the task's sandbox; its second one
 * is the answer. What the sub-agent leaves in the basket is graded too. Use it with go-shopping.yaml.
 */

import { defineAgent, defineEnvironment, type Message, type Task } from 'longhaul';

const limits = { memoryMiB: 256, processes: 32, diskMiB: 32 };
const tools = ['bash', 'finish'];
const rule = 'Write each purchase as a line "COUNT FRUIT" into the file basket, then finish.';
const user = (content: string): Message => ({ role: 'user', content });
const said = (content: string): Message => ({ role: 'assistant', content });
const bash = (command: string): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [
    { name: 'bash', arguments: { command } },
    { name: 'finish', arguments: {} },
  ],
});

defineAgent({
  name: 'customer',
  reads: 'text',
  decide({ earlier, parsed }) {
    if (earlier.length > 0) return { do: 'answer' };
    const messages = [user(`${rule}\n${parsed.content}`)];
    return { do: 'delegate', name: 'shopper', agent: { type: 'tools' }, tools, messages };
  },
});

function taskOf(index: number): Task {
  const count = 1 + (index % 9);
  const line = `${count} ${['apples', 'pears', 'plums', 'figs'][index % 4] ?? ''}`;
  return {
    messages: [user(`Ask the shopper to buy ${line}. When it has answered, answer with the number of pieces.`)],
    tools: [],
    agent: { type: 'customer' },
    agents: { shopper: { description: 'buys fruit.', tools } },
    sandboxes: { main: { workdir: '/shop', files: [], env: {}, limits } },
    async collect(ctx) {
      const found = await (await ctx.sandbox()).read('basket', 1000);
      return found.kind === 'file' ? found.content : new Uint8Array();
    },
    async grade(_ctx, { artifact, answer, finish, turns }) {
      const bought = Buffer.from(artifact).toString().trim() === line ? 0.5 : 0;
      const counted = answer.trim() === String(count) ? 0.4 : 0;
      const ended = finish === 'answer' && turns > 2 ? 0.1 : 0;
      const [reward, reason] = [bought + counted + ended, `answer ${JSON.stringify(answer)}`];
      return await Promise.resolve({ code: 'graded', reward, passed: reward === 1, reason });
    },
    oracle: async () =>
      await Promise.resolve([said(`Buy ${line}.`), bash(`echo ${line} >> basket`), said(String(count))]),
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const load = async (_split: string, index: number) => await Promise.resolve(taskOf(index));
defineEnvironment({ name: 'go-shopping', open: async () => await Promise.resolve({ digest: '1', splits, load }) });
