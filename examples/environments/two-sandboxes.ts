/**
 * Two sandboxes that reach each other: the policy's tools act on `main`, and a server on `db` answers a name with a
 * price. The answer alone is graded, so no sandbox is made for the grader.
 */

import { defineEnvironment, type Message } from 'longhaul';

const GOODS = ['apple', 'bread', 'candle', 'drum', 'egg', 'fan', 'glove', 'hat'];
const priceOf = (name: string, index: number): number => ((name.length * 37 + index * 101) % 90) + 10;

/** A name in, a price out. It belongs to the set-up, so that a sandbox that replaces a lost one has it too. */
const SERVER = `import json, socketserver
PRICES = json.load(open('/srv/prices.json'))
class One(socketserver.StreamRequestHandler):
    def handle(self):
        name = self.rfile.readline().decode().strip()
        self.wfile.write(f"{PRICES.get(name, 'unknown')}\\n".encode())
socketserver.ThreadingTCPServer(('', 7000), One).serve_forever()
`;
const ask = (name: string): string => `exec 3<>/dev/tcp/db/7000; echo ${name} >&3; cat <&3`;
const message = (name: string, given: Record<string, string>): Message =>
  ({ role: 'assistant', content: '', toolCalls: [{ name, arguments: given }] }) as const;

function taskOf(index: number) {
  const bought = GOODS.filter((_, i) => (index + i) % 3 === 0);
  const total = String(bought.reduce((sum, name) => sum + priceOf(name, index), 0));
  const prices = JSON.stringify(Object.fromEntries(GOODS.map((name) => [name, priceOf(name, index)])));
  const file = (path: string, content: string) => ({ path, content });
  const files = [file('server.py', SERVER), file('prices.json', prices)];
  const up = 'until (exec 3<>/dev/tcp/127.0.0.1/7000) 2>/dev/null; do sleep 0.05; done';
  const setup = `setsid python3 server.py >/dev/null 2>&1 </dev/null & ${up}`;
  const content =
    `A server at db:7000 answers a line with a name by its price (in bash: ${ask('apple')}). ` +
    `What do ${bought.join(', ')} cost together? Give the number as the answer of finish.`;
  return {
    messages: [{ role: 'user' as const, content }],
    tools: ['bash', 'finish'],
    sandboxes: {
      main: { workdir: '/work', files: [], env: {}, network: 'shop' },
      db: { workdir: '/srv', files, env: {}, setup, network: 'shop' },
    },
    resources: { memoryMiB: 128, diskMiB: 32 },
    gradedIn: 'none' as const,
    async grade(_ctx: unknown, { answer }: { readonly answer: string }) {
      const passed = answer.trim() === total;
      const reason = `the answer was ${answer}, and ${total} is right`;
      return await Promise.resolve({ code: 'graded' as const, reward: passed ? 1 : 0, passed, reason });
    },
    oracle: async () =>
      await Promise.resolve([message('bash', { command: ask('hat') }), message('finish', { answer: total })]),
  };
}

defineEnvironment({
  name: 'two-sandboxes',
  open: async () =>
    await Promise.resolve({
      digest: 'two-sandboxes 1',
      splits: { train: 1000, 'held-out': 1000 },
      load: async (_split: string, index: number) => await Promise.resolve(taskOf(index)),
    }),
});
