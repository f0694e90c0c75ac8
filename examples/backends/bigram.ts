/**
 * A complete backend: a bigram model, whose next token depends on the last one alone. It shows every function of the
 * seam with a real gradient; it is no good policy. A run has `modules: [bigram.ts]` and
 * `policy: { backend: bigram, base: 'bigram:/states?tokenizer=/models/starter' }`: states are kept in /states, and the
 * tokenizer is the starter's. A saved state has its name after `#`.
 */

import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { defineBackend, type ScoredSequence } from 'longhaul';

/** Scores [vocabulary × vocabulary]: row i has those of the tokens after token i. Then AdamW's moments. */
interface Model {
  readonly size: number;
  readonly scores: Float64Array;
  readonly first: Float64Array;
  readonly second: Float64Array;
  steps: number;
}
interface Session extends Model {
  readonly uri: string;
  readonly gradient: Float64Array;
}

function parse(uri: string) {
  const { pathname, searchParams, hash } = new URL(uri);
  const tokenizer = searchParams.get('tokenizer');
  if (tokenizer === null) throw new Error(`${uri} names no tokenizer: add ?tokenizer=/path/of/a/model`);
  const name = decodeURIComponent(hash.slice(1));
  return { tokenizer, file: name === '' ? undefined : join(decodeURIComponent(pathname), `${name}.f64`) };
}

async function vocabularyOf(tokenizer: string): Promise<number> {
  const config = JSON.parse(await readFile(join(tokenizer, 'config.json'), 'utf8')) as { vocab_size: number };
  return config.vocab_size;
}

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A state that was never saved has all scores 0: each token is equally likely. */
async function load(uri: string): Promise<Model> {
  const { tokenizer, file } = parse(uri);
  const size = await vocabularyOf(tokenizer);
  const entries = size * size;
  const bytes = file === undefined ? undefined : await readFile(file);
  const all = bytes ? new Float64Array(Uint8Array.from(bytes).buffer) : new Float64Array(3 * entries + 1);
  const part = (i: number) => all.slice(i * entries, (i + 1) * entries);
  return { size, scores: part(0), first: part(1), second: part(2), steps: all[3 * entries] ?? 0 };
}

/** log p of every token after `last`. A temperature of 0 is read as 1. */
function logprobsAfter({ scores, size }: Model, last: number, temperature: number): Float64Array {
  const row = scores.subarray(last * size, (last + 1) * size).map((score) => score / (temperature || 1));
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = row.reduce((total, score) => total + Math.exp(score - most), 0);
  return row.map((score) => Math.min(0, score - most - Math.log(sum)));
}

/** Calls `visit` for each token that counts. */
function eachTarget(
  { tokens, mask, temperatures }: ScoredSequence,
  visit: (last: number, token: number, temperature: number) => void,
): void {
  for (let i = 1; i < tokens.length; i++)
    if (mask[i] === 1) visit(tokens[i - 1] ?? 0, tokens[i] ?? 0, temperatures?.[i] ?? 1);
}

function score(model: Model, sequence: ScoredSequence): number[] {
  const found: number[] = [];
  eachTarget(sequence, (last, token, heat) => found.push(logprobsAfter(model, last, heat)[token] ?? 0));
  return found;
}

/** The models that were sampled last: a rollout samples the same one turn after turn. */
const sampled = new Map<string, Promise<Model>>();
function modelAt(uri: string): Promise<Model> {
  const known = sampled.get(uri) ?? load(uri);
  if (sampled.size >= 4) sampled.clear();
  known.catch(() => sampled.delete(uri));
  sampled.set(uri, known);
  return known;
}

/** Uniform in [0, 1): the same key and position give the same number. */
const noise = (key: string, position: number): number =>
  createHash('sha256').update(`${key} ${position}`).digest().readUIntBE(0, 6) / 2 ** 48;

/** The token at the share `at` of the probabilities. */
function draw(logprobs: Float64Array, at: number): number {
  let sum = 0;
  for (const [token, logprob] of logprobs.entries()) if ((sum += Math.exp(logprob)) > at) return token;
  return logprobs.length - 1;
}

defineBackend<Session>({
  name: 'bigram',
  schemes: ['bigram'],
  promise: 'same-bits',
  losses: 'any',
  entropy: false,
  critic: false,
  lora: false,
  sampling: ['greedy'],
  maxContext: 100_000,
  images: false,

  async describe(uri) {
    const { tokenizer, file } = parse(uri);
    const vocabulary = await vocabularyOf(tokenizer);
    const digest = file === undefined ? 'zeros' : digestOf(await readFile(file));
    return { parameters: vocabulary ** 2, vocabulary, tokenizer, digest };
  },

  async sample({ uri, tokens: context, sampling: { temperature, maxTokens }, stopTokenIds, noiseKey }) {
    const model = await modelAt(uri);
    const [tokens, logprobs]: [number[], number[]] = [[], []];
    while (tokens.length < maxTokens) {
      const all = logprobsAfter(model, tokens.at(-1) ?? context.at(-1) ?? 0, temperature);
      const token = temperature === 0 ? all.indexOf(Math.max(...all)) : draw(all, noise(noiseKey, tokens.length));
      tokens.push(token);
      logprobs.push(all[token] ?? 0);
      if (stopTokenIds.includes(token)) return { tokens, logprobs, finish: 'stop' };
    }
    return { tokens, logprobs, finish: 'length' };
  },

  async open({ uri }) {
    const model = await load(uri);
    return { ...model, uri, gradient: new Float64Array(model.scores.length) };
  },

  async forward(session, sequences) {
    return await Promise.resolve(sequences.map((sequence) => score(session, sequence)));
  },

  async forwardBackward(session, pass) {
    const logprobs = pass.sequences.flatMap((sequence) => score(session, sequence));
    const { gradient: slopes } = pass.objective(logprobs);
    const { gradient, size } = session;
    let next = 0;
    for (const sequence of pass.sequences)
      eachTarget(sequence, (last, token, temperature) => {
        // d log p(token) / d score = (1 if it is the token, else 0) − p, divided by the temperature.
        const slope = (slopes[next++] ?? 0) / (temperature || 1);
        for (const [other, logprob] of logprobsAfter(session, last, temperature).entries()) {
          const at = last * size + other;
          gradient[at] = (gradient[at] ?? 0) + slope * (Number(other === token) - Math.exp(logprob));
        }
      });
    return await Promise.resolve({ logprobs });
  },

  async optimStep(session, { learningRate, betas: [beta1, beta2], epsilon, weightDecay, maxGradNorm }) {
    const { gradient, scores, first, second } = session;
    const gradNorm = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0));
    const scale = maxGradNorm !== null && gradNorm > maxGradNorm ? maxGradNorm / gradNorm : 1;
    session.steps += 1;
    for (const [i, given] of gradient.entries()) {
      const g = given * scale;
      const m = (first[i] = beta1 * (first[i] ?? 0) + (1 - beta1) * g);
      const v = (second[i] = beta2 * (second[i] ?? 0) + (1 - beta2) * g * g);
      const step = m / (1 - beta1 ** session.steps) / (Math.sqrt(v / (1 - beta2 ** session.steps)) + epsilon);
      scores[i] = (scores[i] ?? 0) * (1 - learningRate * weightDecay) - learningRate * step;
    }
    gradient.fill(0);
    return await Promise.resolve({ gradNorm });
  },

  /** Complete or not at all: written aside, then renamed. */
  async saveState({ uri, scores, first, second, steps }, { name }) {
    const saved = new URL(uri);
    saved.hash = name;
    const { file = '' } = parse(saved.href);
    const parts = [scores, first, second, Float64Array.of(steps)];
    const all = Buffer.concat(
      parts.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)),
    );
    await mkdir(dirname(file), { recursive: true });
    const aside = `${file}.${randomUUID()}`;
    await writeFile(aside, all);
    await rename(aside, file);
    return { uri: saved.href, sha256: digestOf(all) };
  },

  /** What is saved can be sampled. */
  async saveForSampler({ uri }, { name }) {
    const saved = new URL(uri);
    saved.hash = name;
    const { file = '' } = parse(saved.href);
    if (!existsSync(file)) throw new Error(`${file} is missing: save the state first`);
    return await Promise.resolve({ uri: saved.href });
  },
});
