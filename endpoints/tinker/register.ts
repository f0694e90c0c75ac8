/** Importing it makes the backend `tinker` known, in every process that opens runs or calls models. */

import { builtInBackend } from '../../trainer/backends/registry.ts';
import { tinkerBackend } from './backend.ts';

builtInBackend(tinkerBackend);
