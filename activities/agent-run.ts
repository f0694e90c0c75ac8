/**
 * The `agent-run@HOST` queue: runs a turn's tool calls in the sandbox, each under its own journal key, and takes out
 * what will be graded. A call that ran and was recorded never runs again.
 */

import type { Message, ToolCall } from '../agents/message.ts';
import { runToolCall } from '../agents/tools/run-tool-call.ts';
import { sandboxLeases } from '../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../sandboxes/sandbox.ts';
import type { Store } from '../store/store.ts';
import { environmentOf } from '../tasks/registry.ts';
import type { AgentRunActivities } from '../workflows/activities.ts';
import type { AgentRunInput, Attempt, CollectOutcome, SandboxRef } from '../workflows/types.ts';
import { classified } from './failures.ts';
import { withHeartbeat } from './heartbeat.ts';
import { type ActRecord, attemptKey, type GenerateRecord, keys } from './records.ts';

export interface AgentRunDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

const RENEWALS_PER_TTL = 4;

async function callsOf(store: Store, input: AgentRunInput): Promise<readonly ToolCall[]> {
  const key = keys.generate(input, input.turn);
  const record = await store.get<GenerateRecord>(key);
  if (record?.parsed.kind !== 'calls') throw new Error(`${key} holds no tool calls`);
  const finish = record.parsed.calls.findIndex((call) => call.name === 'finish');
  return finish < 0 ? record.parsed.calls : record.parsed.calls.slice(0, finish);
}

/** On record before the next call begins: a view that is repeated would see what later calls have changed. */
async function answerOf(
  call: ToolCall,
  index: number,
  input: AgentRunInput,
  tools: readonly string[],
  sandbox: Sandbox,
  store: Store,
): Promise<Message> {
  const key = keys.answer(input, input.turn, index);
  const known = await store.get<Message>(key);
  if (known) return known;
  const callId = `${attemptKey(input)}/${input.turn}/${index}`;
  await store.begin(`tool:${callId}`);
  const content = await runToolCall(call, tools, sandbox, { callId, timeoutMs: input.toolTimeoutSeconds * 1000 });
  return store.putOnce<Message>(key, { role: 'tool', name: call.name, content });
}

async function answers(store: Store, input: AgentRunInput, sandbox: Sandbox): Promise<Message[]> {
  const tools = environmentOf(input.task).load(input.task).tools;
  const messages: Message[] = [];
  for (const [index, call] of (await callsOf(store, input)).entries()) {
    messages.push(await answerOf(call, index, input, tools, sandbox, store));
  }
  return messages;
}

function lineOf({ messages }: ActRecord): string {
  const first = messages[0]?.content.split('\n')[0] ?? '';
  return `${messages.length === 1 ? '' : `${messages.length} answers: `}${first.slice(0, 120)}`;
}

/** Connects, and keeps the sandbox and its lease alive for as long as `body` takes. */
async function withSandbox<T>(deps: AgentRunDeps, input: Attempt & SandboxRef, body: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const { provider, store, host, sandboxTtlSeconds } = deps;
  // Renewing what is held already asks for no more room.
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const sandbox = await provider.connect(input.sandbox);
  let renewing = Promise.resolve();
  // A renewal that fails is told by the calls themselves, or made good by the next one.
  const renewSoon = () => {
    renewing = renewing.then(() => leases.renew(sandbox, input.rollout, sandboxTtlSeconds)).catch(() => undefined);
  };
  const timer = setInterval(renewSoon, (sandboxTtlSeconds * 1000) / RENEWALS_PER_TTL);
  try {
    await leases.renew(sandbox, input.rollout, sandboxTtlSeconds);
    return await body(sandbox);
  } finally {
    clearInterval(timer);
    await renewing;
    sandbox.close();
  }
}

async function release(deps: AgentRunDeps, id: string): Promise<void> {
  await deps.provider.destroy(id);
  await sandboxLeases(deps.store, deps.host, Number.MAX_SAFE_INTEGER).release(id);
}

export function createAgentRunActivities(deps: AgentRunDeps): AgentRunActivities {
  const { store } = deps;
  return {
    agentRun: (input) =>
      classified(() =>
        withHeartbeat(async () => {
          const key = keys.act(input, input.turn);
          const known = await store.get<ActRecord>(key);
          if (known) return { line: lineOf(known) };
          const record = await withSandbox(deps, input, async (sandbox) =>
            store.putOnce<ActRecord>(key, { messages: await answers(store, input, sandbox) }),
          );
          return { line: lineOf(record) };
        }),
      ),

    collect: (input) =>
      classified(() =>
        withHeartbeat(async () => {
          const key = keys.collect(input);
          let outcome = await store.get<CollectOutcome>(key);
          if (!outcome) {
            const execution = await store.begin(key);
            const bytes = await withSandbox(deps, input, (sandbox) =>
              environmentOf(input.task).collect(input.task, sandbox, execution),
            );
            outcome = await store.putOnce(key, { artifact: await store.putObject(bytes), bytes: bytes.length });
          }
          await release(deps, input.sandbox);
          return outcome;
        }),
      ),

    releaseSandbox: (input) => classified(() => withHeartbeat(() => release(deps, input.sandbox))),

    holdSandbox: (input) => classified(() => withHeartbeat(() => withSandbox(deps, input, () => Promise.resolve()))),
  };
}
