/**
 * The two processes of `tinker-api.ts`: the API's server with its journal, and a worker that drains its lanes with an
 * embedded engine and makes the same calls in process. No Temporal: the wake-up of a lane is a message.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { drainModel } from '../../activities/tinker/drain-model.ts';
import { drainSampling } from '../../activities/tinker/drain-sampling.ts';
import { FairTurns } from '../../activities/tinker/fair-turns.ts';
import { DRAIN_LIMITS } from '../../activities/tinker/limits.ts';
import { ResidentModels } from '../../activities/tinker/resident-models.ts';
import type { TinkerPass, TinkerSample } from '../../protocol/tinker.ts';
import { laneName, type TinkerLane } from '../../protocol/tinker-lanes.ts';
import { openTinkerBook } from '../../servers/tinker/tinker-book.ts';
import { TinkerServer } from '../../servers/tinker/tinker-server.ts';
import { openTinkerJournal } from '../../store/tinker/sqlite-journal.ts';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { TinkerEngine } from '../../activities/tinker/tinker-engine.ts';
import { tinkerEngine } from '../../workers/roles/tinker-lanes.ts';

export interface Place {
  readonly store: string;
  readonly dir: string;
  readonly vocabSize: number;
  readonly contextTokens: number;
  /** Without an engine. */
  readonly isEmpty: boolean;
}

/** From the main process to a part. */
export type ToPart =
  | { readonly say: 'wake'; readonly lane: TinkerLane }
  | { readonly say: 'samples'; readonly adapter: string | undefined; readonly samples: readonly TinkerSample[] }
  | { readonly say: 'pass'; readonly pass: TinkerPass }
  | { readonly say: 'used' };

/** From a part to the main process. `used`: processor seconds of all its threads so far. */
export type FromPart =
  | { readonly say: 'wake'; readonly lane: TinkerLane }
  | { readonly say: 'ready'; readonly url: string }
  | { readonly say: 'done'; readonly milliseconds: number; readonly tokens: number }
  | { readonly say: 'used'; readonly used: number };

const send = (message: FromPart): void => void process.send?.(message);
const onMessage = (use: (message: ToPart) => void): void => void process.on('message', use);

function sendUsed(): void {
  const { user, system } = process.cpuUsage();
  send({ say: 'used', used: (user + system) / 1e6 });
}

async function serve({ store, dir, vocabSize, contextTokens }: Place): Promise<void> {
  const base = { name: dir, aliases: [], dir, architecture: 'qwen3', vocabSize, contextTokens };
  const workflow = {
    signalWithStart: async (
      _type: unknown,
      { args }: { readonly args: ReadonlyArray<{ readonly lane: TinkerLane }> },
    ) => {
      const [first] = args;
      if (first !== undefined) send({ say: 'wake', lane: first.lane });
    },
  };
  const client = { workflow } as unknown as Parameters<typeof openTinkerBook>[0]['client'];
  const say = (line: string): void => void process.stderr.write(`server: ${line}\n`);
  const server = await TinkerServer.start({ host: '127.0.0.1', port: 0 });
  server.open({ journal: await openTinkerBook({ store, client, bases: [base], say }), bases: [base] });
  onMessage((message) => {
    if (message.say === 'used') sendUsed();
  });
  send({ say: 'ready', url: server.url });
}

/** Samples cost nothing but a while, so that the API's own cost is left. */
const NO_ENGINE: TinkerEngine = {
  trainerOf: () => Promise.reject(new Error('this engine only samples')),
  sample: async (_base, _adapter, { maxTokens }) => {
    await sleep(40);
    const sequence = {
      tokens: new Int32Array(maxTokens),
      logprobs: new Float32Array(maxTokens),
      finish: 'length' as const,
    };
    return { sequences: [sequence] };
  },
};

async function embedded(say: (line: string) => void): Promise<TinkerEngine> {
  const started = await createEmbeddedEngine({ onOutput: say });
  const whenLost = (): void => process.exit(1);
  return tinkerEngine({ engine: started, sampling: started, digestOf: async () => 'benchmark', whenLost });
}

const SETTINGS = { rank: 8, alpha: 32, seed: 1, attention: true, mlp: true, unembed: true };

async function work({ store, dir, isEmpty }: Place): Promise<void> {
  const say = (line: string): void => void process.stderr.write(`worker: ${line}\n`);
  const engine = isEmpty ? NO_ENGINE : await embedded(say);
  const journal = openTinkerJournal(store);
  const turns = new FairTurns();
  const limits = { ...DRAIN_LIMITS, idleMs: 3_600_000 };
  const residents = new ResidentModels({ journal, engine, turns, limits, say });
  const deps = { journal, engine, turns, residents, owner: 'benchmark', say, limits };
  const drained = new Set<string>();
  const signal = new AbortController().signal;
  const drain = async (lane: TinkerLane): Promise<void> => {
    if (drained.has(laneName(lane))) return;
    drained.add(laneName(lane));
    for (;;) {
      await (lane.what === 'model' ? drainModel(lane.model, deps, signal) : drainSampling(lane.base, deps, signal));
      await sleep(10);
    }
  };
  const own = isEmpty ? undefined : await engine.trainerOf(dir);
  await own?.create('direct', SETTINGS);
  const timed = async (call: () => Promise<number>): Promise<void> => {
    const begun = performance.now();
    const tokens = await call();
    send({ say: 'done', milliseconds: performance.now() - begun, tokens });
  };
  const samples = async (adapter: string | undefined, asked: readonly TinkerSample[]): Promise<number> => {
    const results = await Promise.all(asked.map((one) => engine.sample(dir, adapter, one, signal)));
    return results.flatMap(({ sequences }) => sequences).reduce((sum, { tokens }) => sum + tokens.length, 0);
  };
  const pass = async (asked: TinkerPass): Promise<number> => {
    await own?.pass('direct', asked);
    return asked.data.reduce((sum, { tokens }) => sum + tokens.length, 0);
  };
  onMessage((message) => {
    if (message.say === 'wake') void drain(message.lane);
    else if (message.say === 'samples') void timed(() => samples(message.adapter, message.samples));
    else if (message.say === 'pass') void timed(() => pass(message.pass));
    else sendUsed();
  });
  send({ say: 'ready', url: '' });
}

// So that profiles are written, and no process stays behind.
for (const end of ['SIGINT', 'disconnect'] as const) process.on(end, () => process.exit(0));

const [part, place] = process.argv.slice(2);
const given = JSON.parse(place ?? '{}') as Place;
await (part === 'server' ? serve(given) : work(given));
