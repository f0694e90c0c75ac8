/** Hunts a seam that a user's module cannot fill: the example in examples/backends, bundled as a run bundles it. */

import path from 'node:path';
import { bundleModules } from '../../../modules/bundle.ts';
import { importBundle } from '../../../modules/import-bundle.ts';
import { backendNamed } from '../../../trainer/backends/registry.ts';
import { qwen3Dir } from '../tiny-policy.ts';
import { describeBackend } from './contract.ts';

const module = path.join(import.meta.dirname, '../../../examples/backends/bigram.ts');

describeBackend('bigram', async (dir) => {
  const bundle = await bundleModules([module]);
  await importBundle(bundle);
  const definition = backendNamed('bigram', bundle.digest);
  if (definition === undefined) throw new Error('the example defines no backend');
  return { definition, base: `bigram:${path.join(dir, 'states')}?tokenizer=${qwen3Dir}` };
});
