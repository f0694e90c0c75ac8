/** The reference vectors that a test reads: those of `$LONGHAUL_VECTORS`, or the project's own. */

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** The folder of vectors. */
export const vectorsFolder = resolve(process.env['LONGHAUL_VECTORS'] ?? join(import.meta.dirname, '../vectors'));

/** The content of a file of vectors (`gym.json`). The caller says what it holds. */
export const readVectors = <Content>(name: string): Content =>
  JSON.parse(readFileSync(join(vectorsFolder, name), 'utf8')) as Content;
