/**
 * A basket behind an MCP server, which keeps what is in it from call to call. The server runs in the task's sandbox,
 * and its state is graded. Use it with `modules: [fill-a-basket.ts]` and `task: { name: fill-a-basket }`.
 */

import { defineEnvironment, type Task } from 'longhaul';

const SERVER = String.raw`
import json, sys
basket = {}
FIELDS = {"fruit": {"enum": ["apples", "pears"]}, "count": {"type": "integer", "minimum": 1}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["fruit", "count"]}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
    if method == "tools/list":
        return {"tools": [{"name": name, "description": name, "inputSchema": SCHEMA} for name in ("put", "take")]}
    fruit, count = params["arguments"]["fruit"], params["arguments"]["count"]
    basket[fruit] = basket.get(fruit, 0) + (count if params["name"] == "put" else -count)
    json.dump(basket, open("state.json", "w"), sort_keys=True)
    return {"content": [{"type": "text", "text": json.dumps(basket)}]}

for request in map(json.loads, sys.stdin):
    if "id" in request:
        result = answer(request["method"], request["params"])
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
`;
const limits = { memoryMiB: 256, processes: 32, diskMiB: 32 };
const call = (name: string, fruit: string, count: number) => ({ name: `basket__${name}`, arguments: { fruit, count } });

function taskOf(index: number): Task {
  const [apples, pears] = [2 + (index % 7), 1 + (index % 5)];
  const calls = [call('put', 'apples', apples), call('put', 'pears', pears), call('take', 'apples', 1)];
  const content = `Put ${apples} apples and ${pears} pears into the basket, take 1 of the apples out, then finish.`;
  return {
    messages: [{ role: 'user', content }],
    tools: ['finish'],
    mcp: { basket: { command: ['python3', 'server.py'] } },
    sandboxes: { main: { workdir: '/basket', files: [{ path: 'server.py', content: SERVER }], env: {}, limits } },
    async collect(ctx) {
      const found = await (await ctx.sandbox()).read('state.json', 1000);
      return found.kind === 'file' ? found.content : new Uint8Array();
    },
    async grade(_ctx, { artifact }) {
      const left = Buffer.from(artifact).toString();
      const passed = left === `{"apples": ${apples - 1}, "pears": ${pears}}`;
      return await Promise.resolve({ code: 'graded', reward: passed ? 1 : 0, passed, reason: `basket: ${left}` });
    },
    oracle: async () => await Promise.resolve([{ role: 'assistant', content: '', toolCalls: calls }]),
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const load = async (_split: string, index: number) => await Promise.resolve(taskOf(index));
defineEnvironment({ name: 'fill-a-basket', open: async () => await Promise.resolve({ digest: '1', splits, load }) });
