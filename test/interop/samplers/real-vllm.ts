/**
 * Pushes checkpoints to a real vLLM and samples them, as evals of policies that are trained elsewhere do. By hand:
 * `node test/interop/samplers/real-vllm.ts http://HOST:PORT MODEL BASE [OUT]`. BASE is the folder that the server was
 * started with, of a model with this tokenizer and context: examples/starter. MODEL is its name there. The server needs
 * --enable-lora, VLLM_SERVER_DEV_MODE=1 and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1; with ADAPTERS=no it needs no
 * --enable-lora, since vLLM has adapters in float32 on processors alone. It must be freshly started, and has later
 * versions afterwards. OUT gets the samples, for `drift.ts`.
 */

import { deepStrictEqual as equal, match, ok, rejects } from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { vllmBackend } from '../../../endpoints/samplers/backend.ts';
import { readCheckpoint } from '../../../endpoints/samplers/checkpoint.ts';
import { SamplerServer } from '../../../endpoints/samplers/sampler-server.ts';
import type { SampleAnswer } from '../../../trainer/backends/definition.ts';
import { adapterCheckpoint, wholeCheckpoint } from './made-checkpoints.ts';

const [address = '', model = '', given = '', out] = process.argv.slice(2);
if (given === '') throw new Error('give ADDRESS MODEL BASE [OUT]');
const base = path.resolve(given);
const server = new SamplerServer(address, undefined, process.env);
const dir = await mkdtemp(path.join(process.env['SHARED'] ?? tmpdir(), 'longhaul-vllm-'));
const never = new AbortController().signal;
const hasAdapters = process.env['ADAPTERS'] !== 'no';
const EOS = 499;
const CONTEXT = 1024;

const uriOf = (folder: string, version: number, patience = 120, at = ''): string =>
  `vllm:${address}?model=${model}&tokenizer=${base}&version=${version}&patience=${patience}${at}#${folder}`;

const prompt = (n: number, length = 24): number[] => Array.from({ length }, (_, i) => 10 + ((i * 7 + n * 31) % 400));

interface Asked {
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly maxTokens?: number;
  readonly noise?: string;
  readonly stops?: readonly number[];
  readonly signal?: AbortSignal;
}

const sample = (uri: string, tokens: readonly number[], asked: Asked = {}): Promise<SampleAnswer> => {
  const { temperature = 1, topP = 1, topK = 0, maxTokens = 24, noise = 'noise', stops = [EOS], signal = never } = asked;
  const sampling = { temperature, topP, topK, maxTokens };
  return vllmBackend.sample({ uri, tokens, sampling, stopTokenIds: stops, noiseKey: noise, rollout: 'r' }, signal);
};

interface Sampled {
  readonly kind: string;
  readonly folder: string;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
}
const samples: Sampled[] = [];

/** Samples of a checkpoint, which are kept for the measure of drift. */
async function many(kind: string, folder: string, version: number, count: number): Promise<SampleAnswer[]> {
  const uri = uriOf(folder, version);
  const answers = await Promise.all(
    Array.from({ length: count }, (_, n) => sample(uri, prompt(n), { noise: `${n}`, maxTokens: 64 })),
  );
  for (const [n, { tokens, logprobs }] of answers.entries())
    samples.push({ kind, folder: path.basename(folder), prompt: prompt(n), tokens, logprobs });
  return answers;
}

/** Equal tokens; their log-probabilities may differ by rounding, since a server batches and caches. */
function alike(one: SampleAnswer, other: SampleAnswer): number {
  equal(one.tokens, other.tokens);
  return Math.max(...one.logprobs.map((value, i) => Math.abs(value - other.logprobs[i]!)));
}

let failed = 0;
async function checkAdapters(name: string, work: () => Promise<string | void>): Promise<void> {
  if (hasAdapters) await check(name, work);
}

async function check(name: string, work: () => Promise<string | void>): Promise<void> {
  const from = performance.now();
  const seconds = () => ((performance.now() - from) / 1000).toFixed(2);
  try {
    const said = await work();
    console.log(`ok     ${name}${said ? `: ${said}` : ''} (${seconds()} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name} (${seconds()} s): ${String(error).slice(0, 600)}`);
  }
}

const names = async (): Promise<string[]> => {
  const { data } = (await server.get('v1/models', never)) as { data: Array<{ id: string }> };
  return data.map(({ id }) => id);
};
const label = async (): Promise<string> =>
  ((await server.get('weight_info', never)) as { weight_version: string }).weight_version;
const isPaused = async (): Promise<boolean> =>
  ((await server.get('is_paused', never)) as { is_paused: boolean }).is_paused;

const adapters = await Promise.all([1, 2, 3, 4].map((version) => adapterCheckpoint(base, dir, version)));
const wholes = await Promise.all([5, 6, 7, 8, 9].map((version) => wholeCheckpoint(base, dir, version)));
const adapter = (version: number): string => adapters[version - 1]!;
const whole = (version: number): string => wholes[version - 5]!;
/** A policy whose version is of no concern. */
const any = hasAdapters ? uriOf(adapter(4), 4) : uriOf(whole(5), 5);

await checkAdapters('adapters are pushed by version, each samples its own answers', async () => {
  const greedy = [];
  for (const version of [1, 2]) {
    const uri = uriOf(adapter(version), version);
    const one = await sample(uri, prompt(0), { temperature: 0 });
    alike(one, await sample(uri, prompt(0), { temperature: 0 }));
    greedy.push(one.logprobs);
  }
  ok(greedy[0]![0] !== greedy[1]![0], 'both versions gave the same log-probability');
  await many('adapter', adapter(2), 2, 16);
  return (await names()).join(' ');
});

await checkAdapters('adapters of versions long before are unloaded, and loaded again when asked for', async () => {
  for (const version of [3, 4]) await sample(uriOf(adapter(version), version), prompt(1));
  ok(!(await names()).some((name) => name.startsWith('longhaul-1-')), 'version 1 is still loaded');
  const again = await sample(uriOf(adapter(1), 1), prompt(0), { temperature: 0 });
  equal(again.logprobs.length, again.tokens.length);
  return (await names()).join(' ');
});

await checkAdapters('an adapter that the server lost is pushed again', async () => {
  const { label: own } = await readCheckpoint({ folder: adapter(4), version: 4 });
  await server.post('v1/unload_lora_adapter', { lora_name: `longhaul-${own}` }, never);
  const { finish } = await sample(uriOf(adapter(4), 4), prompt(1));
  return finish;
});

await checkAdapters('an adapter that the server cannot read is refused, and the server still answers', async () => {
  const uri = uriOf(adapter(3), 3, 5, '&at=/nowhere');
  await server.post(
    'v1/unload_lora_adapter',
    { lora_name: `longhaul-${(await readCheckpoint({ folder: adapter(3), version: 3 })).label}` },
    never,
  );
  const error = await sample(uri, prompt(1)).catch((one: unknown) => one);
  ok(error instanceof Error);
  await sample(uriOf(adapter(4), 4), prompt(1));
  return error.message.slice(0, 300);
});

await check('answers are the same for the same seed, and others for another one', async () => {
  const answers = [];
  for (const noise of ['a', 'a', 'b', 'c', 'd']) answers.push(await sample(any, prompt(3), { noise, maxTokens: 64 }));
  const gap = alike(answers[0]!, answers[1]!);
  ok(new Set(answers.map(({ tokens }) => tokens.join(' '))).size > 1, 'all seeds gave the same answer');
  return `log-probabilities of the same answer differ by ${gap}`;
});

await check('top-p, top-k and greedy are taken, and log-probabilities are those before the filters', async () => {
  const [greedy, topK, topP] = [
    await sample(any, prompt(4), { temperature: 0 }),
    await sample(any, prompt(4), { topK: 1 }),
    await sample(any, prompt(4), { topP: 1e-6 }),
  ];
  alike(topK, greedy);
  alike(topP, greedy);
  ok(Math.min(...greedy.logprobs) < -0.01);
});

await check('the ends of answers: a stop token, the limit, a full context, a prompt that fills it', async () => {
  equal((await sample(any, prompt(5), { maxTokens: 1 })).finish, 'length');
  const stopped = await sample(any, prompt(5), { maxTokens: 200, temperature: 0 });
  equal([stopped.finish, stopped.tokens.at(-1)], ['stop', EOS]);
  const nearly = await sample(any, prompt(6, CONTEXT - 2), { maxTokens: 64, noise: 'x' });
  const full = await sample(any, prompt(6, CONTEXT), { maxTokens: 64 });
  const beyond = await sample(any, prompt(6, CONTEXT + 40), { maxTokens: 64 });
  equal([full.finish, full.tokens.length, beyond.finish, beyond.tokens.length], ['context', 0, 'context', 0]);
  const alone = await sample(any, prompt(6), { maxTokens: 5000, temperature: 0 });
  return `2 tokens left: ${nearly.finish} of ${nearly.tokens.length}; more than the context asked for: ${alone.finish}`;
});

await check('whole weights are pushed by version, and sample their own answers', async () => {
  const greedy = [];
  for (const version of [5, 6]) {
    greedy.push((await sample(uriOf(whole(version), version), prompt(0), { temperature: 0 })).logprobs[0]);
    match(await label(), new RegExp(`^${version}-`));
  }
  ok(greedy[0] !== greedy[1], 'both versions gave the same log-probability');
  await many('whole', whole(6), 6, 16);
  equal(await isPaused(), false);
});

await check('a lower version and an adapter are refused, and the server keeps its weights', async () => {
  await rejects(sample(uriOf(whole(5), 5), prompt(0)), /a later version/);
  if (hasAdapters) await rejects(sample(uriOf(adapter(4), 4), prompt(0)), /is of the base model/);
  return label();
});

await check('a server that is behind is waited for by all callers; answers under way are whole', async () => {
  const before = Array.from({ length: 6 }, (_, n) =>
    sample(uriOf(whole(6), 6), prompt(n), { maxTokens: 400, stops: [EOS], noise: `${n}` }).then(
      () => 'answered',
      (error: unknown) => String(error).slice(0, 60),
    ),
  );
  const after = await Promise.all(Array.from({ length: 6 }, (_, n) => sample(uriOf(whole(7), 7), prompt(n))));
  equal(after.length, 6);
  return [...new Set(await Promise.all(before))].join(' | ');
});

await check('a server that was restarted, and says another label, is pushed to again', async () => {
  await server.post('update_weight_version', { new_version: 'default' }, never);
  await sample(uriOf(whole(7), 7), prompt(0));
  match(await label(), /^7-/);
});

await check('whole weights that the server cannot read: the push fails, and the server still answers', async () => {
  const error = await sample(uriOf(whole(8), 8, 10, '&at=/nowhere'), prompt(0)).catch((one: unknown) => one);
  ok(error instanceof Error);
  const raw = { model, prompt: prompt(0), max_tokens: 4, temperature: 0 };
  const answer = await server.post('v1/completions', raw, never).catch((one: unknown) => `no answer: ${String(one)}`);
  ok(typeof answer === 'object', String(answer));
  equal([await label(), await isPaused()], ['unknown', false]);
  if (hasAdapters) await rejects(sample(uriOf(adapter(4), 4), prompt(0)), /is of the base model/);
  return error.message.slice(0, 300);
});

await check('the next push succeeds', async () => {
  await sample(uriOf(whole(8), 8), prompt(0));
  await many('whole after a failed push', whole(8), 8, 8);
  match(await label(), /^8-/);
});

await check('a push whose process is stopped at any time is repeated', async () => {
  for (const after of [5, 50, 150, 400, 800]) {
    await server.post('update_weight_version', { new_version: 'default' }, never);
    const dead = new AbortController();
    setTimeout(() => dead.abort(new Error('killed')), after);
    await sample(uriOf(whole(8), 8), prompt(0), { signal: dead.signal }).catch(() => undefined);
    await sample(uriOf(whole(8), 8), prompt(0));
    match(await label(), /^8-/);
    equal(await isPaused(), false);
  }
  await many('whole after stopped pushes', whole(8), 8, 8);
});

await check('a label that somebody sets while a push loads is no version', async () => {
  const push = sample(uriOf(whole(9), 9, 10), prompt(0));
  await server.post('update_weight_version', { new_version: 'loading 1-0123456789abcdef ff' }, never);
  await push;
  match(await label(), /^9-/);
  await many('whole', whole(9), 9, 8);
});

await check('whole weights of another shape: the server does not sample, and the message says what to do', async () => {
  const folder = await wholeCheckpoint(base, dir, 10, true);
  const error = await sample(uriOf(folder, 10, 10), prompt(0)).catch((one: unknown) => one);
  ok(error instanceof Error);
  const [own, paused] = [await label(), await isPaused()];
  const raw = { model, prompt: prompt(0), max_tokens: 4, temperature: 0 };
  const answer = paused ? 'paused' : await server.post('v1/completions', raw, never).catch((one: unknown) => one);
  equal([own, await label()], ['unknown', 'unknown']);
  return `paused ${paused}, ${JSON.stringify(answer).slice(0, 80)}: ${error.message.slice(0, 400)}`;
});

if (out !== undefined) {
  const kept = path.resolve(out);
  await mkdir(kept, { recursive: true });
  await writeFile(path.join(kept, 'samples.json'), JSON.stringify(samples));
}
console.log(failed === 0 ? 'all passed' : `${failed} failed`);
if (process.env['KEEP']) console.log(dir);
else await rm(dir, { recursive: true, force: true });
process.exit(failed === 0 ? 0 : 1);
