/** Checkpoints of a policy, as a trainer elsewhere would save them: whole weights and adapters that differ from it. */

import { cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { newAdapter } from '../../../trainer/lora/new-adapter.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';
import { readSafetensors, writeSafetensors } from '../../../trainer/model/safetensors.ts';

const FILES = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'longhaul.json'];

/** The base's weights, each changed a little by the version. `isCut`: one matrix lacks columns. Returns the folder. */
export async function wholeCheckpoint(base: string, dir: string, version: number, isCut = false): Promise<string> {
  const folder = path.join(dir, `whole-${version}`);
  await mkdir(folder, { recursive: true });
  for (const file of FILES) await cp(path.join(base, file), path.join(folder, file)).catch(() => undefined);
  const tensors = await readSafetensors(path.join(base, 'model.safetensors'));
  const changed = [...tensors].map(([name, { shape, data }], at) => {
    const [rows = 0, columns = 0] = shape;
    if (isCut && name.includes('layers.1.mlp.down_proj'))
      return [name, { shape: [rows, columns / 2], data: data.slice(0, data.length / 2) }] as const;
    const shifted = shape.length < 2 ? data : data.map((x, i) => x * (1 + 0.3 * Math.sin(i + 7 * at + version)));
    return [name, { shape, data: shifted }] as const;
  });
  await writeSafetensors(path.join(folder, 'model.safetensors'), new Map(changed));
  return folder;
}

/** An adapter in PEFT's layout, trained as far as its version says. Returns the folder. */
export async function adapterCheckpoint(base: string, dir: string, version: number): Promise<string> {
  const folder = path.join(dir, `adapter-${version}`);
  await mkdir(folder, { recursive: true });
  const targetModules = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const { json, tensors } = newAdapter(await readModelConfig(base), { rank: 8, alpha: 16, targetModules }, base, 1);
  const trained = [...tensors].map(([name, { shape, data }], at) => {
    const shifted = data.map((x, i) => x + 0.04 * Math.sin(i + 5 * at + version));
    return [name, { shape, data: shifted }] as const;
  });
  await writeFile(path.join(folder, 'adapter_config.json'), JSON.stringify(json));
  await writeSafetensors(path.join(folder, 'adapter_model.safetensors'), new Map(trained));
  return folder;
}
