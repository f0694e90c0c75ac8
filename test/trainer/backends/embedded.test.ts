/** Hunts differences between the embedded engine and the seam that other backends have. */

import path from 'node:path';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { embeddedDefinition } from '../../../trainer/embedded/embedded-definition.ts';
import { EmbeddedTrainer } from '../../../trainer/embedded/embedded-trainer.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import type { BackendDefinition } from '../../../trainer/backends/definition.ts';
import { qwen3Dir } from '../tiny-policy.ts';
import { describeBackend } from './contract.ts';

describeBackend('embedded', async (dir) => {
  const sampler = new Sampler({ load: (policy) => loadPolicy(policy.dir) });
  const definition = embeddedDefinition({ sampler, trainer: new EmbeddedTrainer(), states: path.join(dir, 'states') });
  return await Promise.resolve({ definition: definition as BackendDefinition, base: fileUri(qwen3Dir) });
});
