/** Runs one tool call. The answer is an observation for any input of the policy; only a lost sandbox is an error. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { ToolCall } from '../../protocol/message.ts';
import { toolRegistry } from './registry.ts';
import { type Observation, refusal, type Tool, type ToolContext } from './tool.ts';

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
 * `allowed`: names of the tools that the task offers. Errors: `SandboxLost`, `SandboxUnavailable`.
 */
export async function runToolCall(
  call: ToolCall,
  allowed: readonly string[],
  sandbox: Sandbox,
  context: ToolContext,
  registry: ReadonlyMap<string, Tool> = toolRegistry,
): Promise<Observation> {
  const tool = offered(call, allowed, registry);
  if (tool === undefined) return refusal(`there is no tool ${JSON.stringify(call.name)}; use ${allowed.join(', ')}.`);
  return await tool.run(call, sandbox, context);
}
