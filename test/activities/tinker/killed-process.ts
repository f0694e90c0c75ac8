/** A process to be killed: `accept` asks for all of the work again from the start, as a client does; `drain` does it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TinkerOperation } from '../../../protocol/tinker.ts';
import { SqliteJournal } from '../../../store/tinker/sqlite-journal.ts';
import { create, model, pass } from '../../store/tinker/contract.ts';
import { QUICK, TestWorker } from './world.ts';

const adam = { learningRate: 0.1, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };

/** Number `i` of the work. It ends with a gradient that no step has taken. */
export const operationOf = (i: number): TinkerOperation => {
  if (i === 0) return create;
  if (i % 5 === 0) return { kind: 'optim_step', adam };
  if (i % 17 === 0)
    return { kind: 'save_weights', path: `tinker://m/weights/${i}`, what: 'training', overwrite: false };
  return { kind: 'pass', pass: pass(i) };
};
export const COUNT = 64;

export async function accept(journal: SqliteJournal, said: (request: string) => void): Promise<void> {
  await journal.putBase('base', '/base');
  await journal.putModel(model('m'));
  for (let seq = 0; seq < COUNT; seq += 1) {
    const given = { tenant: 'ann', lane: 'm', seq, digest: `${seq}`, operation: operationOf(seq) };
    said((await journal.accept(given)).requestId);
  }
}

const [, , what, dir] = process.argv;
if (dir !== undefined && what === 'accept') {
  await accept(new SqliteJournal(dir, undefined), (request) => process.stdout.write(`${request}\n`));
  process.stdout.write('end\n');
}
if (dir !== undefined && what === 'drain') {
  const limits = { ...QUICK, lost: 1000, saveAfter: { ...QUICK.saveAfter, operations: 7 } };
  const worker = new TestWorker(new SqliteJournal(dir, undefined), { before: () => sleep(2) }, limits);
  process.stdout.write('ready\n');
  for (;;) {
    await worker.drain('m');
    await sleep(5);
  }
}
