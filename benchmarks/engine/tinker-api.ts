/**
 * Tokens per second through the Tinker API beside the same calls in process, in turn in one run: `node
 * benchmarks/engine/tinker-api.ts [ROUNDS [empty | qwen3-60m]]`. Server, worker and this client are processes, as in a
 * stack; the client is small, so that what is measured is the server's and the worker's. `empty`: no engine, so that a
 * sample's cost is the API's alone. `qwen3-60m`: a larger model than that of SkyRL's published numbers. With
 * `PYTHON=python` of an environment with the SDK, `test/interop/tinker_speed.py` runs after it on the same server.
 */

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { encodePassRequest } from '../../endpoints/tinker/wire/pass-request.ts';
import type { TinkerPass, TinkerSample } from '../../protocol/tinker.ts';
import { storeUrl } from '../../connection/store-url.ts';
import { openTinkerJournal } from '../../store/tinker/sqlite-journal.ts';
import { parseModelConfig } from '../../trainer/model/config.ts';
import { benchModel, median, randomIds, writeTinkerModel } from './bench-models.ts';
import type { Place, FromPart, ToPart } from './tinker-api-parts.ts';

const [SAMPLED, PROMPT, SEQUENCES, LENGTH] = [64, 32, 8, 128];

class Part {
  readonly #child: ChildProcess;
  readonly #waiting: Array<(message: FromPart) => void> = [];

  constructor(name: string, place: Place, onWake: (message: FromPart & { say: 'wake' }) => void) {
    const flags = process.env['BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${name}`];
    const file = path.join(import.meta.dirname, 'tinker-api-parts.ts');
    this.#child = fork(file, [name, JSON.stringify(place)], { execArgv: flags, serialization: 'advanced' });
    this.#child.on('message', (message: FromPart) => {
      if (message.say === 'wake') onWake(message);
      else this.#waiting.shift()?.(message);
    });
  }

  received<K extends FromPart['say']>(say: K): Promise<Extract<FromPart, { say: K }>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push((message) =>
        message.say === say
          ? resolve(message as Extract<FromPart, { say: K }>)
          : reject(new Error(`received ${message.say} for ${say}`)),
      );
    });
  }

  send = (message: ToPart): void => void this.#child.send(message);
  async used(): Promise<number> {
    this.send({ say: 'used' });
    return (await this.received('used')).used;
  }
  end = (): void => void this.#child.kill('SIGINT');
}

/** A small client: one connection for each call under way. */
class Client {
  readonly #url: string;
  #agent = new Agent({ keepAlive: true, maxSockets: 512 });

  constructor(url: string) {
    this.#url = url;
  }

  post(to: string, body: unknown): Promise<Buffer> {
    const isBytes = body instanceof Uint8Array;
    const bytes = isBytes ? body : Buffer.from(JSON.stringify(body));
    const headers = {
      'x-api-key': 'tml-a-benchmark',
      'content-type': isBytes ? 'application/x-protobuf' : 'application/json',
      'content-length': bytes.length,
      accept: to === '/retrieve_future' ? 'application/x-protobuf' : 'application/json',
    };
    return new Promise((resolve, reject) => {
      const asked = request(`${this.#url}/api/v1${to}`, { method: 'POST', agent: this.#agent, headers }, (answer) => {
        const parts: Buffer[] = [];
        answer.on('data', (part: Buffer) => parts.push(part));
        answer.on('end', () =>
          answer.statusCode === 200
            ? resolve(Buffer.concat(parts))
            : reject(new Error(`${to}: ${answer.statusCode} ${Buffer.concat(parts).toString()}`)),
        );
      });
      asked.on('error', reject);
      asked.end(bytes);
    });
  }

  json = async (to: string, body: unknown) =>
    JSON.parse((await this.post(to, body)).toString()) as Record<string, string>;
  /** The result of what is asked for. */
  async future(to: string, body: unknown): Promise<Buffer> {
    return this.post('/retrieve_future', { request_id: (await this.json(to, body))['request_id'] });
  }
  /** The server may be about to close connections that were idle for seconds. */
  renew(): void {
    this.close();
    this.#agent = new Agent({ keepAlive: true, maxSockets: 512 });
  }
  close = (): void => this.#agent.destroy();
}

const sampleOf = (prompt: readonly number[], seed: number): TinkerSample => ({
  prompt: Int32Array.from(prompt),
  count: 1,
  maxTokens: SAMPLED,
  temperature: 1,
  topP: 1,
  topK: 0,
  stop: [],
  seed,
  promptLogprobs: false,
  topPrompt: 0,
  topSampled: 0,
});

interface Round {
  readonly milliseconds: number;
  readonly tokens: number;
  /** Processor seconds. */
  readonly server: number;
  readonly worker: number;
  readonly client: number;
}

class Bench {
  readonly server: Part;
  readonly worker: Part;
  readonly client: Client;
  #seq = 1;

  constructor(server: Part, worker: Part, client: Client) {
    [this.server, this.worker, this.client] = [server, worker, client];
  }

  async measured(call: () => Promise<{ tokens: number; milliseconds: number }>): Promise<Round> {
    const [server, worker, own] = [await this.server.used(), await this.worker.used(), process.cpuUsage()];
    const { tokens, milliseconds } = await call();
    const { user, system } = process.cpuUsage(own);
    return {
      milliseconds,
      tokens,
      server: (await this.server.used()) - server,
      worker: (await this.worker.used()) - worker,
      client: (user + system) / 1e6,
    };
  }

  async direct(message: ToPart): Promise<Round> {
    return this.measured(() => {
      this.worker.send(message);
      return this.worker.received('done');
    });
  }

  /** Calls at once through the API. */
  async through(calls: ReadonlyArray<() => Promise<unknown>>, tokens: number): Promise<Round> {
    this.client.renew();
    return this.measured(async () => {
      const begun = performance.now();
      await Promise.all(calls.map((call) => call()));
      return { tokens, milliseconds: performance.now() - begun };
    });
  }

  sample(sampler: string, { prompt, seed }: TinkerSample): Promise<Buffer> {
    return this.client.future('/asample', {
      sampling_session_id: sampler,
      seq_id: (this.#seq += 1),
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens: [...prompt] }] },
      sampling_params: { max_tokens: SAMPLED, temperature: 1, top_k: -1, top_p: 1, seed, stop: [] },
    });
  }
}

function report(name: string, direct: readonly Round[], through: readonly Round[]): void {
  const rate = (rounds: readonly Round[]) => Math.round(median(rounds.map((r) => (r.tokens * 1000) / r.milliseconds)));
  const per = (rounds: readonly Round[], of: (round: Round) => number) =>
    ((rounds.reduce((sum, one) => sum + of(one), 0) / rounds.reduce((sum, one) => sum + one.tokens, 0)) * 1e6).toFixed(
      0,
    );
  const ratios = through.map((one, i) => {
    const other = direct[i];
    return other === undefined ? Number.NaN : other.milliseconds / one.milliseconds;
  });
  console.log(
    `${name}: in process ${rate(direct)}, API ${rate(through)} tokens/s, share ${median(ratios).toFixed(2)}; ` +
      `processor ms per 1,000 tokens: in process ${per(direct, (one) => one.worker)}, API ` +
      `worker ${per(through, (one) => one.worker)} + server ${per(through, (one) => one.server)} (client ` +
      `${per(through, (one) => one.client)})`,
  );
}

const rounds = Number(process.argv[2] ?? 8);
const variant = process.argv[3];
if (variant !== undefined && variant !== 'empty' && variant !== 'qwen3-60m')
  throw new Error(`${variant} is neither empty nor qwen3-60m`);
const isEmpty = variant === 'empty';

/** A model's passes, measured; then its sampler. */
async function trained(
  bench: Bench,
  session: string,
  { store, dir, vocabSize }: Place,
): Promise<{ sampler: string; adapter: string }> {
  const { client } = bench;
  const made = { session_id: session, model_seq_id: 0, base_model: dir, lora_config: { rank: 8 } };
  await client.future('/create_model', made);
  const model = `${session}:train:0`;
  let seq = 0;
  const data = (round: number) =>
    randomIds(SEQUENCES, LENGTH + 1, vocabSize, `pass ${round}`).map((ids) => ({
      tokens: Int32Array.from(ids.slice(0, -1)),
      targets: Int32Array.from(ids.slice(1)),
    }));
  const pass = (round: number): TinkerPass => ({
    data: data(round),
    loss: 'cross_entropy',
    config: {},
    backward: true,
  });
  const submitPass = (round: number) => {
    const sent = data(round).map(({ tokens, targets }) => ({
      tokens,
      inputs: {
        target_tokens: { dtype: 'int64' as const, shape: [LENGTH], values: Float64Array.from(targets) },
        weights: { dtype: 'float32' as const, shape: [LENGTH], values: new Float32Array(LENGTH).fill(1) },
      },
    }));
    const asked = {
      modelId: model,
      seq: (seq += 1),
      loss: 'cross_entropy',
      config: {},
      forwardOnly: false,
      data: sent,
    };
    return client.future('/forward_backward', encodePassRequest(asked as Parameters<typeof encodePassRequest>[0]));
  };
  const passes: { direct: Round[]; through: Round[] } = { direct: [], through: [] };
  for (let round = -2; round < rounds; round++) {
    const direct = await bench.direct({ say: 'pass', pass: pass(round) });
    const through = await bench.through([() => submitPass(round)], SEQUENCES * LENGTH);
    if (round < 0) continue;
    passes.direct.push(direct);
    passes.through.push(through);
  }
  report(`forward_backward ${SEQUENCES} x ${LENGTH}, one after the other`, passes.direct, passes.through);
  const save = { model_id: model, seq_id: (seq += 1), path: 'speed' };
  const saved = JSON.parse((await client.future('/save_weights_for_sampler', save)).toString()) as { path: string };
  const asked = { session_id: session, sampling_session_seq_id: 0, model_path: saved.path };
  const sampler = (await client.json('/create_sampling_session', asked))['sampling_session_id'] ?? '';
  const journal = openTinkerJournal(store);
  const adapter = (await journal.checkpoint(saved.path))?.dir ?? '';
  await journal.close();
  return { sampler, adapter };
}

async function baseSampler(
  client: Client,
  session: string,
  { dir }: Place,
): Promise<{ sampler: string; adapter: undefined }> {
  const asked = { session_id: session, sampling_session_seq_id: 0, base_model: dir };
  return {
    sampler: (await client.json('/create_sampling_session', asked))['sampling_session_id'] ?? '',
    adapter: undefined,
  };
}

const scratch = await mkdtemp(path.join(tmpdir(), 'longhaul-tinker-api-'));
const parts: Part[] = [];
try {
  const store = storeUrl(path.join(scratch, 'state'));
  const dir =
    variant === 'qwen3-60m' ? await benchModel(variant, scratch) : await writeTinkerModel(path.join(scratch, 'tiny'));
  const config: unknown = JSON.parse(await readFile(path.join(dir, 'config.json'), 'utf8'));
  const { vocabSize, maxPositions: contextTokens } = parseModelConfig(config);
  const place = { store, dir, vocabSize, contextTokens, isEmpty };
  const onWake = (message: ToPart): void => parts[1]?.send(message);
  const server = new Part('server', place, onWake);
  const { url } = await server.received('ready');
  const worker = new Part('worker', place, () => undefined);
  parts.push(server, worker);
  await worker.received('ready');
  const client = new Client(url);
  const bench = new Bench(server, worker, client);
  const session = (await client.json('/create_session', { tags: [] }))['session_id'] ?? '';
  const { sampler, adapter } = isEmpty
    ? await baseSampler(client, session, place)
    : await trained(bench, session, place);
  for (const many of [1, 16, 64]) {
    const [directs, throughs]: [Round[], Round[]] = [[], []];
    for (let round = -2; round < rounds; round++) {
      const samples = randomIds(many, PROMPT, vocabSize, `samples ${round}`).map(sampleOf);
      const direct = await bench.direct({ say: 'samples', adapter, samples });
      const through = await bench.through(
        samples.map((one) => () => bench.sample(sampler, one)),
        many * SAMPLED,
      );
      if (round < 0) continue;
      directs.push(direct);
      throughs.push(through);
    }
    report(`samples of ${SAMPLED} tokens, ${many} at once`, directs, throughs);
  }
  client.close();
  const python = process.env['PYTHON'];
  if (python !== undefined) {
    const env = { ...process.env, TINKER_BASE_URL: url, TINKER_API_KEY: 'tml-a-benchmark', TINKER_TELEMETRY: '0' };
    const file = path.join(import.meta.dirname, '..', '..', 'test', 'interop', 'tinker_speed.py');
    await once(spawn(python, [file], { env, stdio: 'inherit' }), 'exit');
  }
} finally {
  for (const part of parts) part.end();
  await rm(scratch, { recursive: true, force: true });
}
process.exit(0);
