/**
 * `bench soak`: the memory and disk use of a long run. It makes many steps of the quickstart's job on its own stack, or
 * many rollouts of an empty model in batches. After each step or batch it measures the memory of every process and the
 * sizes of the databases.
 */

import { Client, Connection } from '@temporalio/client';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { openStore, sqliteUrl } from '../../store/open-store.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { stopStack } from '../../stack/stop-stack.ts';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import { QUEUES } from '../../protocol/queues.ts';
import { ownEnvironment, stackState } from '../../chaos/stage.ts';
import { Longhaul } from '../../client/longhaul.ts';
import { readRunConfig } from '../../config/read-config.ts';
import { inputOf, startOrchestrator } from '../batch.ts';
import { emptyEnvironment } from '../empty-parts.ts';
import { emptyActivities } from '../orchestration.ts';
import { startOwnWorkers, withOwnTemporal } from '../own-temporal.ts';
import { memoryCurve } from './curve.ts';
import { flatness, growth } from './flat.ts';
import { type Sample, sampleAll, type Watched } from './samples.ts';

export interface SoakOptions {
  readonly dir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly note: (line: string) => void;
}

/** Writes each sample at once, so that all of them stay if the soak is interrupted. */
class SoakRecord {
  readonly samples: Sample[] = [];
  readonly #file: string;
  readonly #unit: string;
  readonly #watched: Watched;
  readonly #note: SoakOptions['note'];

  constructor(unit: string, watched: Watched, { dir, note }: SoakOptions) {
    mkdirSync(dir, { recursive: true });
    this.#file = join(dir, `${unit}.jsonl`);
    writeFileSync(this.#file, '');
    this.#unit = unit;
    this.#watched = watched;
    this.#note = note;
  }

  take(at: number): void {
    const sample = sampleAll(this.#watched, at);
    this.samples.push(sample);
    const line = JSON.stringify(sample);
    appendFileSync(this.#file, `${line}\n`);
    this.#note(line);
  }

  report() {
    const { samples } = this;
    writeFileSync(this.#file.replace(/jsonl$/u, 'svg'), memoryCurve(samples, this.#unit));
    return {
      unit: this.#unit,
      done: samples.at(-1)?.at ?? 0,
      file: this.#file,
      memory: flatness(samples),
      bytesEach: growth(samples),
      last: samples.at(-1),
    };
  }
}

export type SoakReport = ReturnType<SoakRecord['report']>;

/** Few held-out tasks and small steps, so that there can be many steps: memory grows by step or by rollout. */
const SMALL = ['evaluation.tasks=8', 'batch.tasks=2'];
/** The run must end instead of pausing, because nobody would resume it. */
const UNATTENDED = ['breaker.maxConsecutiveFailures=0'];

/** `steps` small steps of the quickstart's job. */
export async function soakSteps(steps: number, options: SoakOptions): Promise<SoakReport> {
  const { dir, signal, note } = options;
  const env = ownEnvironment(options.env, dir);
  const home = join(dir, '.longhaul');
  const set = [`steps=${steps}`, ...SMALL, ...UNATTENDED, `checkpoint.every=${Math.max(1, Math.ceil(steps / 10))}`];
  const config = await readRunConfig(join(packageRoot, 'examples', 'quickstart.yaml'), { runId: 'soak', set }, dir);
  try {
    const { address, namespace } = await ensureStack({ home, env, say: note, signal });
    const pids = () =>
      Object.fromEntries(
        (stackState(home)?.processes ?? []).flatMap(({ name, process }) => (process ? [[name, process.pid]] : [])),
      );
    const databases = { temporal: stackPaths(home).database, store: join(home, 'store', 'store.sqlite') };
    const record = new SoakRecord('steps', { pids, databases, begun: performance.now() }, options);
    const longhaul = await Longhaul.connect({ address, namespace });
    try {
      const run = await longhaul.train(config);
      for await (const { step } of run.steps(0, signal)) record.take(step);
      // The steps of a failed run end without an error: the result has it.
      await run.result();
    } finally {
      await longhaul.close();
    }
    return record.report();
  } finally {
    await stopStack({ home });
  }
}

const BATCH = 500;
const TURNS = 1;
const WIDTH = 96;

/** `rollouts` rollouts of an empty model, through the stack's own orchestrator. */
export async function soakRollouts(rollouts: number, options: SoakOptions): Promise<SoakReport> {
  defineEnvironment(emptyEnvironment);
  // Built here, because building the bundle takes more memory than running it.
  await buildWorkflowBundle();
  return withOwnTemporal(async ({ address, dir, pid }) => {
    const home = join(dir, 'home');
    const store = await openStore(sqliteUrl(join(home, 'store')));
    const stop = await startOwnWorkers({
      address,
      from: import.meta,
      activities: emptyActivities(store, TURNS),
      slots: 100,
      cachedWorkflows: 0,
    });
    const orchestrator = await startOrchestrator(address, home);
    const connection = await Connection.connect({ address });
    try {
      const { workflow } = new Client({ connection });
      const pids = () => ({ server: pid, orchestrator: orchestrator.pid ?? 0, 'empty parts': process.pid });
      const databases = { temporal: join(dir, 'temporal.db'), store: join(home, 'store', 'store.sqlite') };
      const record = new SoakRecord('rollouts', { pids, databases, begun: performance.now() }, options);
      for (let done = 0; done < rollouts;) {
        options.signal.throwIfAborted();
        const input = {
          ...inputOf(Math.min(BATCH, rollouts - done), { type: 'bounded', width: WIDTH }, TURNS),
          name: `batch-${done}`,
        };
        const result: BatchResult = await workflow.execute('batch', {
          taskQueue: QUEUES.orchestrator,
          workflowId: `bench/${input.name}`,
          args: [input],
        });
        if (result.graded !== result.rollouts)
          throw new Error(
            `${result.rollouts - result.graded} of ${result.rollouts} rollouts were not graded: ` +
              `${JSON.stringify(result.failures)}`,
          );
        done += result.rollouts;
        record.take(done);
      }
      return record.report();
    } finally {
      await connection.close();
      orchestrator.kill('SIGTERM');
      if (orchestrator.exitCode === null) await once(orchestrator, 'exit');
      await stop();
      await store.close();
    }
  });
}
