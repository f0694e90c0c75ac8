/** Runs one tool call: whatever the policy wrote, the answer is an observation, and only a lost sandbox is an error. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { ToolCall } from '../message.ts';
import { toolRegistry } from './registry.ts';
import type { Tool, ToolContext } from './tool.ts';

/**
 * `allowed` are the names of the tools that the task offers. Errors: `SandboxLost`, `SandboxUnavailable`.
 */
export async function runToolCall(
  call: ToolCall,
  allowed: readonly string[],
  sandbox: Sandbox,
  context: ToolContext,
  registry: ReadonlyMap<string, Tool> = toolRegistry,
): Promise<string> {
  const tool = allowed.includes(call.name) ? registry.get(call.name) : undefined;
  if (tool === undefined) return `Error: there is no tool ${JSON.stringify(call.name)}; use ${allowed.join(', ')}.`;
  return await tool.run(call, sandbox, context);
}
