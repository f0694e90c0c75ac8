/**
 * An agent that is a Python program in the sandbox: it calls the policy through the gateway, runs the commands that the
 * policy asks for, and prints the last message. Any program that speaks OpenAI's API may stand in its place. Use it
 * with call-the-policy.yaml.
 */

import { defineEnvironment, type Task } from 'longhaul';

const AGENT = `import json, os, subprocess, sys, urllib.request

TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Runs a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]

def ask(messages):
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": TOOLS}).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)) as answer:
        return json.load(answer)["choices"][0]["message"]

def run(function):
    if function["name"] != "bash":
        return "There is no such tool. Use bash."
    command = str(json.loads(function["arguments"]).get("command", "")).replace("\\0", "")
    try:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, errors="replace", timeout=60)
        return (done.stdout + done.stderr)[-4000:]
    except subprocess.TimeoutExpired:
        return "It took more than a minute."

messages = [{"role": "user", "content": sys.argv[1]}]
for turn in range(8):
    message = ask(messages)
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": run(call["function"])})
print(messages[-1]["content"])
`;

const limits = { memoryMiB: 256, processes: 32, diskMiB: 32 };

function taskOf(index: number): Task {
  const [a, b] = [2 + (index % 7), 2 + ((index * 3) % 5)];
  const question = `Write the product of ${a} and ${b} into the file product, then say done.`;
  return {
    messages: [{ role: 'user', content: question }],
    tools: [],
    agent: {
      type: 'external',
      options: { command: `python3 agent.py '${question}'`, gateway: true, timeoutSeconds: 300 },
    },
    sandboxes: { main: { workdir: '/work', files: [{ path: 'agent.py', content: AGENT }], env: {}, limits } },
    async collect(ctx) {
      const found = await (await ctx.sandbox()).read('product', 1000);
      return found.kind === 'file' ? found.content : new Uint8Array();
    },
    async grade(_ctx, { artifact, finish, turns }) {
      const written = Buffer.from(artifact).toString().trim();
      const tried = (written === '' ? 0 : 0.1) + (finish === 'answer' ? 0.1 : 0);
      const reward = written === String(a * b) ? 1 : tried;
      const reason = `wrote ${JSON.stringify(written)} in ${turns} calls, ${finish}`;
      return await Promise.resolve({ code: 'graded', reward, passed: written === String(a * b), reason });
    },
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const load = async (_split: string, index: number) => await Promise.resolve(taskOf(index));
defineEnvironment({ name: 'call-the-policy', open: async () => await Promise.resolve({ digest: '1', splits, load }) });
