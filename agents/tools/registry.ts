/** The tools by the names that policies use: those of Longhaul, and custom ones. */

import { Registry } from '../../modules/registry.ts';
import { bash } from './bash.ts';
import { browser } from './browser/browser.ts';
import { codeSearch } from './code-search.ts';
import { checkTool } from './check-tool.ts';
import { delegate } from './delegate.ts';
import { editor } from './editor.ts';
import { finish } from './finish.ts';
import { jobs } from './jobs.ts';
import { nextWithSummary } from './next-with-summary.ts';
import { search } from './search.ts';
import { viewImage } from './view-image.ts';
import { makeTool, type Tool, type ToolDefinition } from './tool.ts';

const builtIn = [bash, editor, search, codeSearch, jobs, viewImage, finish, delegate, nextWithSummary, browser].map(
  (tool) => [tool.schema.function.name, tool] as const,
);
const tools = new Registry<Tool>('tool', Object.fromEntries(builtIn));

export const toolRegistry: ReadonlyMap<string, Tool> = tools.of();

/** The tools by name. `modules`: digest of the run's modules. */
export const toolsOf = (modules?: string): ReadonlyMap<string, Tool> => tools.of(modules);

/** Errors: `UnknownName`, with the known ones. */
export const toolNamed = (name: string, modules?: string): Tool => tools.get(name, modules);

/** Adds a custom tool, for tasks that list its name. The name must be new. Errors: `DefinitionRefused`; `NameTaken`. */
export function defineTool<Options = unknown>(definition: ToolDefinition<Options>): Tool {
  checkTool(definition);
  const tool = makeTool(definition);
  tools.define(definition.name, tool);
  return tool;
}
