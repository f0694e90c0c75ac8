/** The tools by the names that policies use: those of Longhaul, and custom ones. */

import { Registry } from '../../modules/registry.ts';
import { bash } from './shell/bash.ts';
import { browser } from './browser/browser.ts';
import { checkTool } from './schema/check-tool.ts';
import { codeInterpreter } from './shell/code-interpreter.ts';
import { codeSearch } from './code-search.ts';
import { computer } from './computer/computer.ts';
import { delegate } from './delegate.ts';
import { editor } from './editor/editor.ts';
import { finish } from './finish.ts';
import { jobs } from './shell/jobs.ts';
import { nextWithSummary } from './next-with-summary.ts';
import { memory, think } from './notes/memory.ts';
import { search } from './search.ts';
import { sql } from './sql/sql.ts';
import { makeTool, type Tool, type ToolDefinition } from './tool.ts';
import { viewImage } from './view-image.ts';
import { getDocument, localSearch } from './web/local-search.ts';
import { searchEngine } from './web/search-engine.ts';
import { webBrowser } from './web/web-browser.ts';

/** One a line. */
const builtIn: readonly Tool[] = [
  bash,
  editor,
  search,
  codeInterpreter,
  codeSearch,
  jobs,
  viewImage,
  finish,
  delegate,
  nextWithSummary,
  sql,
  memory,
  think,
  localSearch,
  getDocument,
  searchEngine,
  webBrowser,
  browser,
  computer,
];
const named = builtIn.map((tool) => [tool.schema.function.name, tool] as const);
const tools = new Registry<Tool>('tool', Object.fromEntries(named));

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
