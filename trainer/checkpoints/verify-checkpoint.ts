/** Reads a checkpoint as sampling and training would, and holds it to the digest that its step has on record. */

import {
  CheckpointTorn,
  openVerifiedPolicy,
  readVerifiedOptimizer,
  readVerifiedRecord,
  verifiedCriticDir,
} from './verified-checkpoint.ts';

async function readThrough(dir: string): Promise<void> {
  for await (const _piece of (await openVerifiedPolicy(dir)).weights);
  await readVerifiedOptimizer(dir);
}

/** Weights, moments and critic. Errors: `CheckpointTorn`; those of the disk. */
export async function verifyCheckpoint(dir: string, sha256: string): Promise<void> {
  const record = await readVerifiedRecord(dir);
  if (record?.sha256 !== sha256)
    throw new CheckpointTorn(dir, `its record says ${record?.sha256 ?? 'nothing'}, that of its step ${sha256}`);
  await readThrough(dir);
  const critic = await verifiedCriticDir(dir);
  if (critic !== undefined) await readThrough(critic);
}
