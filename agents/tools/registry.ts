/** The tools that come with Longhaul, by the names that policies call them by. */

import { bash } from './bash.ts';
import { editor } from './editor.ts';
import { finish } from './finish.ts';
import { search } from './search.ts';
import type { Tool } from './tool.ts';

export const toolRegistry: ReadonlyMap<string, Tool> = new Map(
  [bash, editor, search, finish].map((tool) => [tool.schema.function.name, tool]),
);
