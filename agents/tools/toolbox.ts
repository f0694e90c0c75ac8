/** The tools that a task offers, by name, each with the task's options. */

import type { ToolSchema } from '../../protocol/message.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { toolNamed } from './registry.ts';
import type { Tool } from './tool.ts';

/** A task's entry for a tool: its name, or its name and options. */
export type ToolChoice = string | { readonly name: string; readonly options?: Readonly<Record<string, unknown>> };

/** In the order of the task, which is their order in the prompt. */
export type Toolbox = ReadonlyMap<string, Tool>;

export const nameOfTool = (choice: ToolChoice): string => (typeof choice === 'string' ? choice : choice.name);

/**
 * `modules`: digest of the run's modules.
 * Errors: `UnknownName`, with the known ones; `UserInputError` for wrong options, and for a tool that is listed twice.
 */
export function toolboxOf(choices: readonly ToolChoice[], modules?: string): Toolbox {
  const tools = new Map<string, Tool>();
  for (const choice of choices) {
    const name = nameOfTool(choice);
    if (tools.has(name)) throw new UserInputError('tools', name, 'list each tool once');
    const options = typeof choice === 'string' ? undefined : choice.options;
    tools.set(name, toolNamed(name, modules).withOptions(options, `tools.${name}.options`));
  }
  return tools;
}

export function schemasOf(tools: Toolbox): ToolSchema[] {
  return [...tools.values()].map(({ schema }) => schema);
}
