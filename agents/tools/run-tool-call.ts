/** Runs one tool call. The answer is an observation for any input of the policy; only a lost sandbox is an error. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { ToolCall } from '../../protocol/message.ts';
import { toolRegistry } from './registry.ts';
import { type CallContext, type Observation, refusal, type Seen, type Tool } from './tool.ts';

function offered(call: ToolCall, allowed: readonly string[], registry: ReadonlyMap<string, Tool>): Tool | undefined {
  return allowed.includes(call.name) ? registry.get(call.name) : undefined;
}

/** True if the call, run by `runToolCall`, does not change the sandbox. */
export function onlyReads(
  call: ToolCall,
  allowed: readonly string[],
  registry: ReadonlyMap<string, Tool> = toolRegistry,
): boolean {
  return offered(call, allowed, registry)?.onlyReads(call) ?? true;
}

/**
 * `allowed`: names of the tools that the task offers. `sandbox`: `undefined` if the task has none. Errors:
 * `SandboxLost`, `SandboxUnavailable`.
 */
export async function runToolCall(
  call: ToolCall,
  allowed: readonly string[],
  sandbox: Sandbox | undefined,
  context: CallContext,
  registry: ReadonlyMap<string, Tool> = toolRegistry,
): Promise<Observation & Seen> {
  const tool = offered(call, allowed, registry);
  if (tool === undefined) return refusal(`there is no tool ${JSON.stringify(call.name)}; use ${allowed.join(', ')}.`);
  if (tool.runs === 'sandbox' && sandbox === undefined)
    return refusal(`${call.name} cannot run: this task has no sandbox.`);
  return await tool.run(call, sandbox, context);
}
